package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// With LATCHKEY_ACL=minimal each server of this package has the user that
// docs/security.md describes, and the library's connections are logged in as that
// user. What tests do by hand they do as the administrator, as ever.
//
// A test that makes its connection by [Server.Client] or [redis.NewClient] passes it
// through [User] on its way to the library, or its options through [AsUser].

// The library's users: of what docs/security.md says, and of the same with all Redis
// channels, for tests of pubsub and of scripts, which do not use those of any object.
const (
	userName   = "minimal"
	userOnAny  = "minimal-any"
	userSecret = "of-no-weight"
)

// Minimal says whether the library is to run with the least rights.
func Minimal() bool { return os.Getenv("LATCHKEY_ACL") == "minimal" }

// Rights are what docs/security.md says that a user needs.
type Rights struct {
	Base    []string // on a single server, for names with the prefix
	Sharded []string // for sharded pub/sub
	Look    []string // instead of Base, for a user who may only look
	List    []string // for latchkey ls and top
	Cluster []string // in a cluster as well
	Acks    []string // for WithReplicaAck
	Check   []string // for Client.Check
	OwnTags []string // for names that have a hash tag of their own
}

// Usual are Base and Sharded, as far as the server of [Find] has the latter.
func (r Rights) Usual() []string {
	if !Sharded() {
		return slices.Clone(r.Base)
	}
	return slices.Concat(r.Base, r.Sharded)
}

var (
	aclBlock  = regexp.MustCompile("(?s)```acl\n(.*?)```")
	lookBlock = regexp.MustCompile("(?s)```look\n(.*?)```")
	aclCode   = regexp.MustCompile("`([+~&][^`]*)`")
)

// Documented reads docs/security.md, with prefix in the place of the "app:" there.
// "" is that of an application whose names may be anything.
func Documented(prefix string) (Rights, error) {
	text, err := securityText()
	if err != nil {
		return Rights{}, err
	}
	text = strings.ReplaceAll(text, "app:", prefix)
	var r Rights
	if block := aclBlock.FindStringSubmatch(text); block != nil {
		r.Base = strings.Fields(block[1])
	}
	if block := lookBlock.FindStringSubmatch(text); block != nil {
		r.Look = strings.Fields(block[1])
	}
	for line := range strings.Lines(text) {
		var to *[]string
		switch {
		case !strings.HasPrefix(line, "| `"):
			continue
		case strings.Contains(line, "| sharded pub/sub"):
			to = &r.Sharded
		case strings.Contains(line, "| `latchkey ls`"):
			to = &r.List
		case strings.Contains(line, "| a Redis Cluster"):
			to = &r.Cluster
		case strings.Contains(line, "| `WithReplicaAck`"):
			to = &r.Acks
		case strings.Contains(line, "| `Check`"):
			to = &r.Check
		case strings.Contains(line, "| names that have a hash tag"):
			to = &r.OwnTags
		default:
			continue
		}
		for _, m := range aclCode.FindAllStringSubmatch(strings.ReplaceAll(line, `\|`, "|"), -1) {
			*to = append(*to, strings.Fields(m[1])...)
		}
	}
	for _, rule := range r.Base { // "and so on"
		if rule[0] == '~' {
			r.Look = append(r.Look, "%R"+rule)
		}
		if strings.Contains(rule, ":{"+prefix) {
			r.OwnTags = append(r.OwnTags, strings.Replace(rule, ":{"+prefix, ":"+prefix, 1))
		}
	}
	if r.Base == nil || r.Sharded == nil || len(r.Look) < 2 || r.List == nil || r.Cluster == nil || r.Acks == nil || r.Check == nil || r.OwnTags == nil {
		return Rights{}, fmt.Errorf("redistest: docs/security.md is not as expected: %+v", r)
	}
	return r, nil
}

// securityText looks for the file from the working directory up.
func securityText() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "docs", "security.md"))
		if err == nil {
			return string(text), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("redistest: docs/security.md is not above the working directory: %w", err)
		}
		dir = up
	}
}

// served has the addresses at which there are the users: of servers, and of proxies
// before them.
var served sync.Map

// userArgs are arguments of the server that give it its users: from the start, as they
// must be there while it loads what it had. A Sentinel has none.
func (s *Server) userArgs() ([]string, error) {
	if !Minimal() || s.head != nil {
		return nil, nil
	}
	r, err := Documented("")
	if err != nil {
		return nil, err
	}
	rules := slices.Concat(r.Usual(), r.OwnTags)
	if strings.Contains(strings.Join(s.args, " "), "--cluster-enabled yes") {
		rules = append(rules, r.Cluster...)
	}
	s.mu.Lock()
	rules = append(rules, s.also...)
	s.mu.Unlock()
	// The server wants nothing beside "all keys", which the first pattern now says.
	rules = slices.DeleteFunc(rules, func(rule string) bool { return rule[0] == '~' && rule != "~*" })
	some := append([]string{"--user", userName, "on", ">" + userSecret}, rules...)
	rules = slices.DeleteFunc(rules, func(rule string) bool { return rule[0] == '&' })
	all := append(append([]string{"--user", userOnAny, "on", ">" + userSecret}, rules...), "&*")
	served.Store(s.Addr, true)
	return slices.Concat(some, all), nil
}

// Allow gives the library's users the rights to commands that docs/security.md names for
// WithReplicaAck and Check, as far as the server has them.
func (s *Server) Allow(t testing.TB, commands ...string) {
	t.Helper()
	if !Minimal() {
		return
	}
	r, err := Documented("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range commands {
		right := "+" + name
		if !slices.Contains(slices.Concat(r.Acks, r.Check), right) {
			t.Fatalf("redistest: docs/security.md does not have %s", right)
		}
		if !s.knows(t, name) {
			continue
		}
		for _, user := range libraryUsers() {
			s.Do(t, "ACL", "SETUSER", user, right)
		}
		s.mu.Lock()
		s.also = append(s.also, right)
		s.mu.Unlock()
	}
}

// knows says whether the server has a command.
func (s *Server) knows(t testing.TB, command string) bool {
	t.Helper()
	var known []string
	command, _, _ = strings.Cut(strings.ToLower(command), "|") // before 7.0 COMMAND INFO knows no subcommands
	Until(t, "an answer", func() bool {                        // a Sentinel may have cut all connections
		var err error
		known, err = s.do("COMMAND", "INFO", command)
		return err == nil
	})
	return len(known) > 0 && known[0] != ""
}

// UserName is the user that the library's connections are logged in as.
func UserName() string { return libraryUsers()[0] }

// libraryUsers are the users that the library runs as.
func libraryUsers() []string {
	if Minimal() {
		return []string{userName, userOnAny}
	}
	return []string{"default"}
}

// Deny takes the right to a command from the library, until the function it returns
// is called.
func (s *Server) Deny(t testing.TB, command string) (allow func()) {
	t.Helper()
	if !s.knows(t, command) {
		return func() {} // it is not needed there
	}
	s.mu.Lock()
	s.denies = true
	s.mu.Unlock()
	for _, user := range libraryUsers() {
		s.Do(t, "ACL", "SETUSER", user, "-"+command)
	}
	return func() {
		t.Helper()
		for _, user := range libraryUsers() {
			s.Do(t, "ACL", "SETUSER", user, "+"+command)
		}
	}
}

// checkDenied fails the test if something that the library asked for was denied. It
// may not have noticed: without a channel it polls.
func (s *Server) checkDenied(t testing.TB) {
	t.Helper()
	if !Minimal() || s.head != nil {
		return
	}
	s.mu.Lock()
	skip := s.denies || s.frozen || s.proc == nil || s.proc.exited()
	s.mu.Unlock()
	if skip {
		return
	}
	w, err := dialWire(s.Addr)
	if err != nil {
		return
	}
	defer w.Close()
	log, err := w.do("ACL", "LOG")
	if err != nil {
		return
	}
	for _, what := range denied(log, userName, userOnAny) {
		t.Errorf("redistest: denied to the library: %s", what)
	}
}

// Denied returns what the server has denied to a user, as ACL LOG tells.
func (s *Server) Denied(t testing.TB, user string) []string {
	t.Helper()
	return denied(s.Do(t, "ACL", "LOG"), user)
}

func denied(log []string, users ...string) []string {
	var out []string
	for len(log) > 0 {
		entry := map[string]string{}
		for len(log) > 1 && (log[0] != "count" || len(entry) == 0) {
			entry[log[0]] = log[1]
			log = log[2:]
		}
		if len(entry) == 0 {
			break
		}
		// go-redis asks for CLIENT SETINFO, and does without. Redis 6.2 calls that client.
		if slices.Contains(users, entry["username"]) && entry["object"] != "client|setinfo" && entry["object"] != "client" {
			out = append(out, fmt.Sprintf("%s %s (%s, %s times)", entry["reason"], entry["object"], entry["context"], entry["count"]))
		}
	}
	return out
}

// AsUser makes the library's user log in with these options, if it has one and they do
// not name another, and returns them.
func AsUser[O redis.Options | redis.UniversalOptions | redis.FailoverOptions](o *O) *O {
	var name, secret *string
	var inline *bool
	switch o := any(o).(type) {
	case *redis.Options:
		name, secret, inline = &o.Username, &o.Password, &o.ContextTimeoutEnabled
	case *redis.UniversalOptions:
		name, secret, inline = &o.Username, &o.Password, &o.ContextTimeoutEnabled
	case *redis.FailoverOptions:
		name, secret, inline = &o.Username, &o.Password, &o.ContextTimeoutEnabled
	}
	*inline = *inline || Inline()
	if Minimal() && *name == "" {
		*name, *secret = userName, userSecret
	}
	return o
}

// User returns the connection that the library is to have of a test which has rdb:
// rdb itself, but with LATCHKEY_ACL=minimal one with the same options, logged in as
// the library's user. All calls with one rdb share it, and it is closed at the end of
// the last test among them. What is no server of this package, or has logged in as a
// user of the test's own, is left as it is.
func User(t testing.TB, rdb redis.UniversalClient) redis.UniversalClient {
	t.Helper()
	return derive(t, rdb, userName)
}

// UserOnAny is User with the rights to all Redis channels.
func UserOnAny(t testing.TB, rdb redis.UniversalClient) redis.UniversalClient {
	t.Helper()
	return derive(t, rdb, userOnAny)
}

type derivation struct {
	from redis.UniversalClient
	user string
}

type derived struct {
	client redis.UniversalClient
	uses   int
}

var derivations = struct {
	sync.Mutex
	of map[derivation]*derived
}{of: map[derivation]*derived{}}

func derive(t testing.TB, rdb redis.UniversalClient, user string) redis.UniversalClient {
	t.Helper()
	if !Minimal() {
		return rdb
	}
	key := derivation{rdb, user}
	derivations.Lock()
	defer derivations.Unlock()
	d := derivations.of[key]
	if d == nil {
		c := loggedIn(rdb, user)
		if c == nil {
			return rdb
		}
		d = &derived{client: c}
		derivations.of[key] = d
	}
	d.uses++
	t.Cleanup(func() {
		derivations.Lock()
		defer derivations.Unlock()
		if d.uses--; d.uses == 0 {
			delete(derivations.of, key)
			_ = d.client.Close()
		}
	})
	return d.client
}

// loggedIn returns a new client with the options of rdb and this user; nil if there is
// no such user.
func loggedIn(rdb redis.UniversalClient, user string) redis.UniversalClient {
	switch rdb := rdb.(type) {
	case *redis.Client:
		o := *rdb.Options()
		if _, ok := served.Load(o.Addr); !ok || o.Username != "" {
			return nil
		}
		o.Username, o.Password, o.PushNotificationProcessor = user, userSecret, nil
		o.MaintNotificationsConfig = nil // which rdb writes to
		asGiven(&o.MaxRetries)
		asGiven(&o.MinRetryBackoff)
		asGiven(&o.MaxRetryBackoff)
		timeoutAsGiven(&o.ReadTimeout)
		timeoutAsGiven(&o.WriteTimeout)
		return redis.NewClient(&o)
	case *redis.ClusterClient:
		o := *rdb.Options()
		if _, ok := served.Load(o.Addrs[0]); !ok || o.Username != "" {
			return nil
		}
		o.Username, o.Password = user, userSecret
		asGiven(&o.MaxRedirects)
		asGiven(&o.MinRetryBackoff)
		asGiven(&o.MaxRetryBackoff)
		asGiven(&o.ReadTimeout)
		asGiven(&o.WriteTimeout)
		return redis.NewClusterClient(&o)
	}
	return nil
}

// asGiven undoes what go-redis makes of an option: of -1 it makes 0, which would be
// the default when given again.
func asGiven[T int | time.Duration](option *T) {
	if *option == 0 {
		*option = -1
	}
}

// timeoutAsGiven is asGiven for an option that may be -2 as well, for -1.
func timeoutAsGiven(option *time.Duration) {
	if *option <= 0 {
		*option--
	}
}
