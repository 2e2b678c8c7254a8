package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/internal/text"
	"github.com/latchkey-go/latchkey/ui"
)

const serveHelp = `serve shows in a browser what is held and waited for, which clients there are, which
jobs ran and who leads, and follows it. It changes nothing, except with --actions: then
whoever sees the page can take a lock from its holder, set permits, and begin or end the
count of a latch, and each such action is a line of standard error.

It listens on the loopback interface. For any other address it needs --auth, a file with
a line USER:PASSWORD for each user, which may be read by its owner only, or
--insecure-no-auth. Passwords go over the wire as they are typed, so --tls-cert and
--tls-key belong with --auth, or a proxy before it that has them.

GET or HEAD /healthz answers 200 while Redis answers, and asks for no password.`

const serveExamples = `  latchkey serve
  latchkey serve --listen 0.0.0.0:8077 --auth /etc/latchkey/users --tls-cert cert.pem --tls-key key.pem`

// serveFlags are the flags of serve.
type serveFlags struct {
	listen, prefix, title, auth string
	cert, key                   string
	noAuth, actions             bool
}

func newServe(conn *connection) *cobra.Command {
	f := new(serveFlags)
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Show what is held and waited for in a browser",
		Long:    serveHelp,
		Example: serveExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			users, err := f.check()
			if err != nil {
				return err
			}
			return conn.session(func(ctx context.Context, s *session) error {
				return s.serve(ctx, f, users)
			}, latchkey.WithKeyPrefix(f.prefix), latchkey.WithPubSub(conn.publishes()))
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8077", "`address` to listen on; port 0 is any that is free")
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "show only what the names of your locks begin with (WithKeyPrefix)")
	cmd.Flags().StringVar(&f.title, "title", "", "`text` above each page: which Redis it is")
	cmd.Flags().BoolVar(&f.actions, "actions", false, "let users change things")
	cmd.Flags().StringVar(&f.auth, "auth", "", "`file` with a line USER:PASSWORD for each user")
	cmd.Flags().BoolVar(&f.noAuth, "insecure-no-auth", false, "let everybody in who reaches the address")
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "`file` of the certificate of the page")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "`file` of the key of --tls-cert")
	cmd.MarkFlagsMutuallyExclusive("auth", "insecure-no-auth")
	return cmd
}

// users are the hashes of the passwords, by user.
type users map[string][sha256.Size]byte

// check checks the flags, and returns the users of --auth; nil without it.
func (f *serveFlags) check() (users, error) {
	host, _, err := net.SplitHostPort(f.listen)
	switch {
	case err != nil:
		return nil, exit.Usagef("serve: --listen %s is no address, as 127.0.0.1:8077", text.Name(f.listen))
	case !loopback(host) && f.auth == "" && !f.noAuth:
		return nil, exit.Usagef("serve: %s is not the loopback interface: that needs --auth FILE, or --insecure-no-auth", text.Name(f.listen))
	case (f.cert == "") != (f.key == ""):
		return nil, exit.Usagef("serve: --tls-cert and --tls-key belong together")
	case f.auth == "":
		return nil, nil
	}
	all, err := readUsers(f.auth)
	if err != nil {
		return nil, exit.Usagef("serve: --auth: %v", err)
	}
	return all, nil
}

// loopback reports whether a host is this machine only.
func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// readUsers reads the file of --auth. Its errors do not quote it.
func readUsers(path string) (users, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		return nil, errors.New("others can read the file too: chmod 600 it")
	}
	all := users{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		user, password, ok := strings.Cut(line, ":")
		if !ok || user == "" || password == "" {
			return nil, errors.New("a line is not USER:PASSWORD")
		}
		all[user] = sha256.Sum256([]byte(password))
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the file has no user")
	}
	return all, nil
}

// know reports whether a request has a user and the password of that user.
func (u users) know(r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(password))
	want, ok := u[user]
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && ok
}

// serve serves the page until ctx is done.
func (s *session) serve(ctx context.Context, f *serveFlags, known users) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	opts := ui.Options{Title: f.title, Logger: log}
	if opts.Title == "" {
		opts.Title = s.addr
	}
	if f.actions {
		opts.Authorize = func(*http.Request, ui.Action) error { return nil }
	}
	page, err := ui.New(s.client, opts)
	if err != nil {
		return err
	}
	defer page.Close()
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return exit.Errorf(exit.Failed, "serve: %v", err)
	}
	web := &http.Server{
		Handler:           guard(page, known, f.noAuth),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	scheme := "http"
	if f.cert != "" {
		scheme = "https"
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			_ = l.Close()
			return exit.Usagef("serve: --tls-cert and --tls-key: %v", err)
		}
		web.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	}
	warn("the page is at %s://%s/", scheme, l.Addr())
	ended := make(chan error, 1)
	go func() {
		if f.cert != "" {
			ended <- web.ServeTLS(l, "", "")
		} else {
			ended <- web.Serve(l)
		}
	}()
	select {
	case err := <-ended:
		return exit.Errorf(exit.Failed, "serve: %v", err)
	case <-ctx.Done():
	}
	_ = page.Close() // ends the streams
	_ = web.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return exit.Errorf(exit.Failed, "serve: %v", err)
	}
	return ctx.Err()
}

// guard lets known users in; without users, everybody who uses a name of this machine: a
// page of the Web could otherwise read this one by a name of its own that leads here.
func guard(page http.Handler, known users, open bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		switch {
		case r.URL.Path == "/healthz":
		case known != nil && !known.know(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="latchkey", charset="UTF-8"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		case known == nil && !open && !loopback(host):
			http.Error(w, "this page is for this machine", http.StatusMisdirectedRequest)
			return
		}
		page.ServeHTTP(w, r)
	})
}
