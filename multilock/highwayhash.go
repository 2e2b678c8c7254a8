package multilock

import (
	"encoding/base64"
	"encoding/binary"
	"math/bits"
)

// redissonKey is the key of the 128-bit HighwayHash by which Redis knows a
// value. The key is Redisson's. It is the same for everybody and keeps nothing
// secret.
var redissonKey = [4]uint64{0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95}

// hashed is the length of a hash from hashValue.
const hashed = 22

// hashValue returns the hash of a value as Redis shows it: base64 without
// padding.
func hashValue(value string) string {
	sum := highwayHash128(redissonKey, []byte(value))
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// A highway is the state of a HighwayHash: four lanes of four parts.
type highway struct{ v0, v1, mul0, mul1 [4]uint64 }

// packet is the number of bytes per step.
const packet = 32

// highwayHash128 returns the hash of data as two big-endian numbers.
func highwayHash128(key [4]uint64, data []byte) (sum [16]byte) {
	h := highway{
		mul0: [4]uint64{0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3},
		mul1: [4]uint64{0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377},
	}
	for i, k := range key {
		h.v0[i] = h.mul0[i] ^ k
		h.v1[i] = h.mul1[i] ^ bits.RotateLeft64(k, 32)
	}
	for ; len(data) >= packet; data = data[packet:] {
		h.packet(data)
	}
	if len(data) > 0 {
		h.rest(data)
	}
	for range 6 {
		h.update([4]uint64{
			bits.RotateLeft64(h.v0[2], 32), bits.RotateLeft64(h.v0[3], 32),
			bits.RotateLeft64(h.v0[0], 32), bits.RotateLeft64(h.v0[1], 32),
		})
	}
	for i := range 2 {
		binary.BigEndian.PutUint64(sum[8*i:], h.v0[i]+h.mul0[i]+h.v1[i+2]+h.mul1[i+2])
	}
	return sum
}

// packet processes the first 32 bytes of b.
func (h *highway) packet(b []byte) {
	var lanes [4]uint64
	for i := range lanes {
		lanes[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	h.update(lanes)
}

// rest processes the last bytes, fewer than a packet.
func (h *highway) rest(b []byte) {
	n, tail := len(b), len(b)&3
	for i := range h.v0 {
		h.v0[i] += uint64(n)<<32 + uint64(n)
		low, high := uint32(h.v1[i]), uint32(h.v1[i]>>32)
		h.v1[i] = uint64(bits.RotateLeft32(high, n))<<32 | uint64(bits.RotateLeft32(low, n))
	}
	var p [packet]byte
	copy(p[:], b[:n-tail])
	switch last := b[n-tail:]; {
	case n >= 16:
		copy(p[28:], b[n-4:])
	case tail > 0:
		p[16], p[17], p[18] = last[0], last[tail>>1], last[tail-1]
	}
	h.packet(p[:])
}

func (h *highway) update(lanes [4]uint64) {
	for i, lane := range lanes {
		h.v1[i] += h.mul0[i] + lane
		h.mul0[i] ^= h.v1[i] & 0xffffffff * (h.v0[i] >> 32)
		h.v0[i] += h.mul1[i]
		h.mul1[i] ^= h.v0[i] & 0xffffffff * (h.v1[i] >> 32)
	}
	for i := 0; i < 4; i += 2 {
		zip(&h.v0[i], &h.v0[i+1], h.v1[i], h.v1[i+1])
	}
	for i := 0; i < 4; i += 2 {
		zip(&h.v1[i], &h.v1[i+1], h.v0[i], h.v0[i+1])
	}
}

// zip adds the bytes of a and b, permuted, to x and y.
func zip(x, y *uint64, a, b uint64) {
	// For each byte, lowest first, its source in a (0 to 7) or b (8 to 15).
	*x += shuffled(a, b, [8]uint{3, 12, 2, 5, 14, 1, 15, 0})
	*y += shuffled(a, b, [8]uint{11, 4, 10, 13, 9, 6, 8, 7})
}

func shuffled(a, b uint64, from [8]uint) (out uint64) {
	for to, place := range from {
		word := a
		if place > 7 {
			word = b
		}
		out |= word >> (8 * (place & 7)) & 0xff << (8 * to)
	}
	return out
}
