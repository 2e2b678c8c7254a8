package multilock

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHighwayHash checks the hashes of [], [0], [0, 1], … that the authors of
// HighwayHash have published.
func TestHighwayHash(t *testing.T) {
	key := [4]uint64{0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1716151413121110, 0x1F1E1D1C1B1A1918}
	data := make([]byte, 64)
	for i := range data {
		data[i] = byte(i)
	}
	for n, want := range map[int][2]uint64{
		0:  {0x0FED268F9D8FFEC7, 0x33565E767F093E6F},
		1:  {0xD6B0A8893681E7A8, 0xDC291DF9EB9CDCB4},
		2:  {0x3D15AD265A16DA04, 0x78085638DC32E868},
		3:  {0x0607621B295F0BEB, 0xBFE69A0FD9CEDD79},
		4:  {0x26399EB46DACE49E, 0x2E922AD039319208},
		5:  {0x3250BDC386D12ED8, 0x193810906C63C23A},
		15: {0x142237A52BC4AF54, 0xE0796C0B6E26BCD7},
		16: {0x414460FFD5A401AD, 0x029EA3D5019F18C8},
		17: {0xC52A4B96C51C9962, 0xECB878B1169B5EA0},
		18: {0xD940CA8F11FBEACE, 0xF93A46D616F8D531},
		19: {0x8AC49D0AE5C0CBF5, 0x3FFDBF8DF51D7C93},
		31: {0x06E7B465E8A57C29, 0x52415E3A07F5D446},
		32: {0x1984DF66C1434AAA, 0x16FC1958F9B3E4B9},
		33: {0x111678AFE0C6C36C, 0xF958B59DE5A2849D},
		63: {0x74BD7018022F3EF0, 0x3AEA94A8AD5F4BCB},
	} {
		sum := highwayHash128(key, data[:n])
		got := [2]uint64{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
		require.Equal(t, want, got, "hash of %d bytes", n)
	}
	require.Len(t, hashValue("orders:42"), hashed)
}
