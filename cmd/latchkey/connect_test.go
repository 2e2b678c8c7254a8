package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/object"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

// port returns the port of a server.
func port(t testing.TB, s *redistest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	return port
}

func TestConnectSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, "main", master)
	flags := []string{"--sentinel-master", "main", "-h", "127.0.0.1", "-p", port(t, sentinel)}
	d := decoded[diagnosis](t, append(flags, "doctor")...)
	assert.Equal(t, "sentinel", d.Topology)
	require.Len(t, d.Servers, 1)
	assert.Equal(t, master.Addr, d.Servers[0].Addr)
	code, stdout, stderr := execute(t, append(flags, "run", "job", "echo", "ran")...)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "ran\n", stdout)
	code, _, stderr = execute(t, "--sentinel-master", "other", "-u", "redis://"+sentinel.Addr, "ls")
	assert.Equal(t, exit.Unavailable, code)
	assert.Contains(t, stderr, "latchkey: Redis at other (sentinels "+sentinel.Addr+"): ")
}

func TestConnectACL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "default", "resetpass", ">root-pw") // the connection of Do is in already
	for _, c := range []struct {
		name  string
		flags []string
		env   string
		code  int
	}{
		{"none", nil, "", exit.Unavailable},
		{"wrong", []string{"-a", "wrong-pw"}, "", exit.Unavailable},
		{"flag", []string{"-a", "root-pw"}, "", 0},
		{"flag before environment", []string{"-a", "root-pw"}, "REDISCLI_AUTH=wrong-pw", 0},
		{"environment", nil, "REDISCLI_AUTH=root-pw", 0},
		{"user", []string{"--user", "default", "-a", "root-pw"}, "", 0},
		{"wrong user", []string{"--user", "nobody", "-a", "root-pw"}, "", exit.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := prepare(t, append([]string{"-h", "127.0.0.1", "-p", port(t, s), "show", "x"}, c.flags...)...)
			if c.env != "" {
				p.cmd.Env = append(p.cmd.Env, c.env)
			}
			p.start()
			assert.Equal(t, c.code, p.code())
			assert.NotContains(t, p.out.String()+p.err.String(), "-pw")
		})
	}
	for _, flags := range [][]string{{"--user", "ann"}, {"-u", "redis://ann@" + s.Addr}} {
		code, _, stderr := execute(t, append(flags, "ls")...)
		assert.Equal(t, exit.Usage, code)
		assert.Contains(t, stderr, `user "ann" is nobody without a password`)
	}
	p := prepare(t, "ls")
	p.cmd.Env = append(p.cmd.Env, "REDIS_URL=redis://:root-pw@"+s.Addr)
	assert.Zero(t, p.start().code())
}

func TestConnectDatabase(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, args := range [][]string{{"-n", "3", "sem", "set", "x", "7"}, {"sem", "set", "x", "7", "-n", "3"}, {"sem", "set", "--db", "3", "x", "7"}} {
		code, _, stderr := execute(t, at(s, args...)...)
		assert.Zero(t, code, stderr)
		assert.Equal(t, []string{"0"}, s.Do(t, "EXISTS", "x"))
		o := decoded[object.Object](t, at(s, "show", "x", "-n", "3")...)
		assert.EqualValues(t, 7, o.Count)
	}
	code, _, stderr := execute(t, at(s, "ls", "-n", "x")...)
	assert.Equal(t, exit.Usage, code)
	assert.Contains(t, stderr, "a number")
}

func TestConnectPort(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"0", "-1", "65536"} {
		code, _, stderr := execute(t, "ls", "-p", p)
		assert.Equal(t, exit.Usage, code)
		assert.Contains(t, stderr, "-p is 1 to 65535, not "+p)
	}
}

// files writes a certificate for 127.0.0.1 that signs itself, and its key.
func files(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"redis.test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", secret)
}

func TestConnectTLS(t *testing.T) {
	t.Parallel()
	cert, key := files(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, tlsPort, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	redistest.StartWithTLS(t, "--tls-port", tlsPort, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	for _, c := range []struct {
		flags string
		code  int
	}{
		{"--tls", exit.Unavailable},
		{"--cacert CERT", exit.Unavailable}, // the server wants one of us, too
		{"--insecure --cert CERT --key KEY", 0},
		{"--cacert CERT --cert CERT --key KEY", 0},
		{"--cacert CERT --cert CERT --key KEY --sni redis.test", 0},
		{"--cacert CERT --cert CERT --key KEY --sni other.test", exit.Unavailable},
		{"--cert CERT", exit.Usage},
	} {
		text := strings.NewReplacer("CERT", cert, "KEY", key).Replace(c.flags)
		args := append([]string{"-h", "127.0.0.1", "-p", tlsPort, "show", "x"}, strings.Fields(text)...)
		code, _, stderr := execute(t, args...)
		assert.Equal(t, c.code, code, "%s: %s", c.flags, stderr)
	}
	code, _, stderr := execute(t, "-u", "rediss://127.0.0.1:"+tlsPort, "--cacert", cert, "--cert", cert, "--key", key, "bench", "--workers", "2", "--duration", "0.1")
	assert.Zero(t, code, stderr)
}

// Valkey's URLs mean what Redis's do.
func TestConnectValkeyURL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, scheme := range []string{"valkey", "VALKEY"} {
		code, stdout, stderr := execute(t, "-u", scheme+"://"+s.Addr+"/1", "run", "job", "echo", "ran")
		assert.Zero(t, code, stderr)
		assert.Equal(t, "ran\n", stdout)
	}
}
