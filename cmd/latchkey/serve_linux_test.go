package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/redistest"
	"github.com/latchkey-go/latchkey/rlock"
)

// serving starts serve, and returns where its page is.
func serving(t *testing.T, s *redistest.Server, args ...string) (c *command, url string) {
	t.Helper()
	c = prepare(t, append(at(s, "serve", "--listen", "127.0.0.1:0"), args...)...).start()
	address := regexp.MustCompile(`the page is at (\S+)`)
	redistest.Until(t, "the address of the page", func() bool {
		m := address.FindStringSubmatch(c.err.String())
		if m != nil {
			url = m[1]
		}
		return m != nil
	})
	return c, url
}

func fetch(t *testing.T, method, url string, change func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	if change != nil {
		change(req)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

func TestServe(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := latchkey.New(server.Client(t))
	defer func() { _ = client.Close() }()
	hold, err := rlock.New(client, "orders:42").Lock(t.Context(), latchkey.Label("export"))
	require.NoError(t, err)
	defer func() { _ = hold.Unlock(context.WithoutCancel(t.Context())) }() // which Redis has forgotten by then

	c, url := serving(t, server)
	redistest.Until(t, "the lock", func() bool { _, body := fetch(t, "GET", url, nil); return strings.Contains(body, ">orders:42<") })
	code, _ := fetch(t, "HEAD", url+"healthz", nil)
	assert.Equal(t, http.StatusOK, code)
	code, _ = fetch(t, "GET", url, func(r *http.Request) { r.Host = "evil.example:80" })
	assert.Equal(t, http.StatusMisdirectedRequest, code)
	code, _ = fetch(t, "POST", url+"action", nil)
	assert.Equal(t, http.StatusBadRequest, code)

	server.Kill() // it goes on, and says what is wrong
	redistest.Until(t, "the trouble", func() bool {
		code, body := fetch(t, "GET", url, nil)
		return code == http.StatusOK && strings.Contains(body, "Redis does not answer")
	})
	server.Restart(t)
	redistest.Until(t, "its end", func() bool {
		_, body := fetch(t, "GET", url, nil)
		return strings.Contains(body, "Nothing is held.") || strings.Contains(body, ">orders:42<") && !strings.Contains(body, "does not answer")
	})
	interrupt(t, c)
}

// interrupt ends a command as Control-C does.
func interrupt(t *testing.T, c *command) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
	assert.Equal(t, exit.Signal+2, c.code())
}

func TestServeToUsers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(file, []byte("# who may\nann:s3:cret\n"), 0o600))
	_, url := serving(t, server, "--auth", file)
	for user, password := range map[string]string{"": "", "ann": "", "bob": "s3:cret", "ann ": "s3:cret"} {
		code, _ := fetch(t, "GET", url, func(r *http.Request) { r.SetBasicAuth(user, password) })
		assert.Equal(t, http.StatusUnauthorized, code, "%s:%s", user, password)
	}
	code, body := fetch(t, "GET", url, func(r *http.Request) { r.SetBasicAuth("ann", "s3:cret") })
	assert.Equal(t, http.StatusOK, code)
	assert.NotContains(t, body, "s3:cret")
	code, _ = fetch(t, "HEAD", url+"healthz", nil)
	assert.Equal(t, http.StatusOK, code)

	require.NoError(t, os.Chmod(file, 0o644))
	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"},
		{"--listen", ":0"},
		{"--listen", "nonsense"},
		{"--tls-cert", file},
		{"--auth", file},
		{"--auth", filepath.Join(t.TempDir(), "none")},
		{"--auth", file, "--insecure-no-auth"},
	} {
		code, _, stderr := execute(t, at(server, append([]string{"serve"}, args...)...)...)
		assert.Equal(t, exit.Usage, code, "%v", args)
		assert.NotContains(t, stderr, "s3:cret")
	}
}
