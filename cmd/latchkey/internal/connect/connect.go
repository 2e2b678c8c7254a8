// Package connect opens connections to Redis as a command line says, and
// explains in words for people why there is none.
package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
)

// The environment variables of the connection. Both may contain a password.
const (
	envURL  = "REDIS_URL"
	envAuth = "REDISCLI_AUTH"
)

// Flags are the flags of redis-cli, which every command has.
type Flags struct {
	flags *pflag.FlagSet

	url, host, user, password string
	port, db                  int
	dbGiven                   bool
	tls, insecure, Cluster    bool
	cacert, cert, key, sni    string
	sentinelMaster            string

	door door
}

// Register adds the flags.
func (c *Flags) Register(fs *pflag.FlagSet) {
	c.flags = fs
	fs.StringVarP(&c.url, "url", "u", "", "Redis `URL`: redis://user:password@host:port/db, rediss:// for TLS, unix://path\n(valkey:// and valkeys:// are the same);\n"+
		"more addresses of a cluster or of sentinels as ?addr=host:port&addr=host:port")
	fs.StringVarP(&c.host, "host", "h", "127.0.0.1", "`host` of Redis (help is --help)")
	fs.IntVarP(&c.port, "port", "p", 6379, "`port` of Redis; 26379 with --sentinel-master")
	fs.StringVarP(&c.password, "pass", "a", "", "`password`; others see it in the list of processes, so better set REDISCLI_AUTH")
	fs.StringVar(&c.user, "user", "", "ACL user `name`")
	fs.Var((*database)(c), "db", "database `number`; also -n, as with redis-cli, but in run, acquire and jobs")
	fs.BoolVar(&c.tls, "tls", false, "use TLS")
	fs.StringVar(&c.cacert, "cacert", "", "`file` of the certificates to trust (implies --tls)")
	fs.StringVar(&c.cert, "cert", "", "`file` of the client's certificate (implies --tls)")
	fs.StringVar(&c.key, "key", "", "`file` of the key of --cert (implies --tls)")
	fs.StringVar(&c.sni, "sni", "", "`name` of the server in TLS (implies --tls)")
	fs.BoolVar(&c.insecure, "insecure", false, "believe any certificate (implies --tls)")
	fs.BoolVar(&c.Cluster, "cluster", false, "it is a Redis Cluster")
	fs.StringVar(&c.sentinelMaster, "sentinel-master", "", "`name` of the master to ask for; host and port are those of a sentinel")
}

// DBShorthand adds redis-cli's -n to a command that has no other -n.
func (c *Flags) DBShorthand(cmd *cobra.Command) {
	cmd.Flags().VarP((*database)(c), "database", "n", "the same as --db")
	cmd.Flags().Lookup("database").Hidden = true
}

// A database is the flag of the database, which has two names.
type database Flags

// Set parses text.
func (d *database) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return errors.New("it must be a number, 0 or more")
	}
	d.db, d.dbGiven = n, true
	return nil
}

// String returns "", so that help shows no default.
func (d *database) String() string { return "" }

// Type returns the name of the argument in help.
func (d *database) Type() string { return "number" }

// OnRefusal makes tell receive the refusal if no server accepts connections.
func (c *Flags) OnRefusal(tell func(error)) { c.door.shut(tell) }

// Dialer returns a dialer for a server that the flags do not name.
func (c *Flags) Dialer() dialer { return c.door.dialer(nil, 0) }

// Given reports whether any flag names a server.
func (c *Flags) Given() bool {
	return c.changed("url", "host", "port", "cluster", "sentinel-master")
}

func (c *Flags) changed(names ...string) bool {
	for _, n := range names {
		if c.flags.Changed(n) {
			return true
		}
	}
	return false
}

// Open returns a client and the name of its server for messages. It does no I/O
// except that it reads certificate files.
func (c *Flags) Open() (redis.UniversalClient, string, error) {
	if c.changed("url") && c.changed("host", "port") {
		return nil, "", exit.Usagef("--url says where Redis is, so there can be no -h or -p")
	}
	if c.Cluster && c.sentinelMaster != "" {
		return nil, "", exit.Usagef("--cluster and --sentinel-master exclude each other")
	}
	switch {
	case c.Cluster:
		return c.openCluster()
	case c.sentinelMaster != "":
		return c.openSentinel()
	}
	return c.openSingle()
}

func (c *Flags) openSingle() (redis.UniversalClient, string, error) {
	o, err := parsed(c, redis.ParseURL)
	if err == nil {
		err = c.adjust(shared{&o.Username, &o.Password, &o.DB, &o.TLSConfig, &o.DialTimeout, &o.DialerRetries, &o.Dialer})
	}
	if err != nil {
		return nil, "", err
	}
	c.door.addrs = []string{o.Addr}
	o.ContextTimeoutEnabled = true
	return redis.NewClient(o), o.Addr, nil
}

func (c *Flags) openCluster() (redis.UniversalClient, string, error) {
	if c.dbGiven {
		return nil, "", exit.Usagef("a Redis Cluster has no databases, so there can be no --db")
	}
	o, err := parsed(c, redis.ParseClusterURL)
	if err == nil {
		err = c.adjust(shared{&o.Username, &o.Password, nil, &o.TLSConfig, &o.DialTimeout, &o.DialerRetries, &o.Dialer})
	}
	if err != nil {
		return nil, "", err
	}
	c.door.addrs = o.Addrs
	o.ContextTimeoutEnabled = true
	return redis.NewClusterClient(o), strings.Join(o.Addrs, ","), nil
}

func (c *Flags) openSentinel() (redis.UniversalClient, string, error) {
	o, err := parsed(c, redis.ParseFailoverURL)
	if err != nil {
		return nil, "", err
	}
	o.MasterName = c.sentinelMaster
	// go-redis takes the user and password before the host for those of the
	// sentinels. That is kept for a URL that has another password for Redis in
	// its parameters.
	if o.Username == "" && o.Password == "" {
		o.Username, o.Password = o.SentinelUsername, o.SentinelPassword
		o.SentinelUsername, o.SentinelPassword = "", ""
	}
	if err := c.adjust(shared{&o.Username, &o.Password, &o.DB, &o.TLSConfig, &o.DialTimeout, &o.DialerRetries, &o.Dialer}); err != nil {
		return nil, "", err
	}
	c.door.addrs = o.SentinelAddrs
	o.ContextTimeoutEnabled = true
	return redis.NewFailoverClient(o), c.sentinelMaster + " (sentinels " + strings.Join(o.SentinelAddrs, ",") + ")", nil
}

// parsed parses the URL, or a URL that is made of host and port. The errors of
// the parser quote the URL, which may contain a password, so they are not
// shown.
func parsed[T any](c *Flags, parse func(string) (*T, error)) (*T, error) {
	text, from := c.url, "--url"
	switch {
	case c.changed("url"):
	case c.changed("host", "port") || os.Getenv(envURL) == "":
		port := c.port
		if port < 1 || port > 65535 {
			return nil, exit.Usagef("-p is 1 to 65535, not %d", port)
		}
		if c.sentinelMaster != "" && !c.changed("port") {
			port = 26379
		}
		text, from = (&url.URL{Scheme: "redis", Host: net.JoinHostPort(c.host, strconv.Itoa(port))}).String(), "-h or -p"
	default:
		text, from = os.Getenv(envURL), envURL
	}
	o, err := parse(asRedis(text))
	if err != nil {
		return nil, exit.Usagef("the Redis URL of %s makes no sense; one looks like redis://user:password@host:6379/0, "+
			"with what is special in a password written as %%40 and the like", from)
	}
	return o, nil
}

// asRedis converts a URL of Valkey to one that go-redis understands.
func asRedis(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case ok && strings.EqualFold(scheme, "valkey"):
		return "redis://" + rest
	case ok && strings.EqualFold(scheme, "valkeys"):
		return "rediss://" + rest
	}
	return text
}

// shared are the options that the three types of client have in common.
type shared struct {
	username, password *string
	db                 *int // nil if the client has no databases
	tls                **tls.Config
	dialTimeout        *time.Duration
	dialerRetries      *int
	dialer             *dialer
}

// adjust sets the options that the other flags determine.
func (c *Flags) adjust(o shared) error {
	if c.changed("user") {
		*o.username = c.user
	}
	switch {
	case c.changed("pass"):
		*o.password = c.password
	case *o.password == "":
		*o.password = os.Getenv(envAuth)
	}
	// go-redis would not authenticate, and the connection would be that of
	// another user.
	if *o.username != "" && *o.password == "" {
		return exit.Usagef("user %q is nobody without a password: -a, %s or in the URL (any will do for a user without one)", *o.username, envAuth)
	}
	if c.dbGiven {
		*o.db = c.db
	}
	// The library retries by itself and knows when to give up.
	if *o.dialTimeout == 0 {
		*o.dialTimeout = 3 * time.Second
	}
	if *o.dialerRetries == 0 {
		*o.dialerRetries = 1
	}
	if c.tls || c.insecure || c.changed("cacert", "cert", "key", "sni") {
		if err := c.secure(o.tls); err != nil {
			return err
		}
	}
	*o.dialer = c.door.dialer(*o.tls, *o.dialTimeout)
	return nil
}

func (c *Flags) secure(p **tls.Config) error {
	if *p == nil {
		*p = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	conf := *p
	if c.sni != "" {
		conf.ServerName = c.sni
	}
	conf.InsecureSkipVerify = c.insecure
	if c.cacert != "" {
		pem, err := os.ReadFile(c.cacert)
		if err != nil {
			return exit.Usagef("--cacert: %v", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return exit.Usagef("--cacert: %s has no certificate", c.cacert)
		}
	}
	if (c.cert == "") != (c.key == "") {
		return exit.Usagef("--cert and --key belong together")
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return exit.Usagef("--cert and --key: %v", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// WithoutPasswords returns an environment without our passwords, for a child.
// It removes REDISCLI_AUTH. A REDIS_URL with a password loses its user and
// password; one that cannot be parsed is removed. (Removing REDIS_URL in every
// case might make the child use another Redis.)
func WithoutPasswords(env []string) []string {
	out := make([]string, 0, len(env))
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case envAuth:
			continue
		case envURL:
			value, ok := bareURL(value)
			if !ok {
				continue
			}
			e = envURL + "=" + value
		}
		out = append(out, e)
	}
	return out
}

// bareURL returns a URL without its user and passwords, or false if they may
// not all be recognizable.
func bareURL(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Fragment != "" || strings.Contains(u.Path+u.RawQuery, "@") {
		return "", false // a password with an unescaped #, / or ?
	}
	bare := u.User == nil
	u.User = nil // a user alone may be a misplaced password
	q := u.Query()
	for k := range q {
		if strings.Contains(strings.ToLower(k), "pass") {
			q.Del(k)
			u.RawQuery, bare = q.Encode(), false
		}
	}
	if bare {
		return text, true
	}
	return u.String(), true
}
