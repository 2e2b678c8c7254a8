package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TLS is a server that also listens for TLS and requires client certificates.
type TLS struct {
	*Server
	TLSAddr string // host:port

	roots  *x509.CertPool
	client tls.Certificate
}

// StartTLS runs a server (see [Start]) and creates a certificate authority for
// it and its clients.
func StartTLS(t testing.TB, args ...string) *TLS {
	t.Helper()
	dir := t.TempDir()
	ca, caKey := certificate(t, nil, nil)
	write := func(name string, cert *x509.Certificate, key *ecdsa.PrivateKey) {
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		for file, block := range map[string]*pem.Block{
			name + ".crt": {Type: "CERTIFICATE", Bytes: cert.Raw}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: der},
		} {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatalf("redistest: %v", err)
			}
		}
	}
	write("ca", ca, caKey)
	cert, key := certificate(t, ca, caKey)
	write("server", cert, key)
	port, err := takePort()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(func() { returnPort(port) })
	s := &TLS{TLSAddr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), roots: x509.NewCertPool()}
	s.roots.AddCert(ca)
	cert, key = certificate(t, ca, caKey)
	s.client = tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	file := func(name string) string { return filepath.Join(dir, name) }
	s.Server = StartWithTLS(t, append([]string{
		"--tls-port", strconv.Itoa(port), "--tls-auth-clients", "yes", "--tls-ca-cert-file", file("ca.crt"),
		"--tls-cert-file", file("server.crt"), "--tls-key-file", file("server.key"),
	}, args...)...)
	return s
}

// StartWithTLS is [Start] with arguments for TLS. If the server of [Find] is
// built without TLS, it uses the redis-server or valkey-server in $PATH.
func StartWithTLS(t testing.TB, args ...string) *Server {
	t.Helper()
	var failed error
	programs := []string{need(t)}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, ok := lookPath(name); ok {
			programs = append(programs, path)
		}
	}
	for _, path := range programs {
		server, err := try(t, path, nil, args)
		if err == nil {
			return server
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", path, err))
	}
	t.Fatalf("redistest: %v", failed)
	return nil
}

// Over returns the option of a client that connects by TLS, with or without a
// certificate.
func (s *TLS) Over(certified bool) func(*redis.Options) {
	conf := &tls.Config{RootCAs: s.roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	if certified {
		conf.Certificates = []tls.Certificate{s.client}
	}
	return func(o *redis.Options) { o.Addr, o.TLSConfig = s.TLSAddr, conf }
}

// certificate makes a certificate for the loopback interface, signed by parent
// or, without one, self-signed.
func certificate(t testing.TB, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if parent == nil {
		parent, signer = c, key
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		c.Subject.CommonName = "redistest authority"
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return made, key
}
