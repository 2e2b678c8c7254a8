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
// docs/security.md describes, and the connections of the library log in as that
// user. The connections of the tests log in as the administrator.
//
// A test that makes its connection by [Server.Client] or [redis.NewClient]
// passes it to the library through [User], or its options through [AsUser].

// The library's users: the one of docs/security.md, and the same with all Redis
// channels, for tests of pubsub and of scripts whose channels belong to no
// object.
const (
	userName   = "minimal"
	userOnAny  = "minimal-any"
	userSecret = "of-no-weight"
)

// Minimal reports whether the library is to run with the least rights.
func Minimal() bool { return os.Getenv("LATCHKEY_ACL") == "minimal" }

// Rights are the rights that docs/security.md lists.
type Rights struct {
	Base    []string // on a single server, for names with the prefix
	Sharded []string // for sharded pub/sub
	Look    []string // instead of Base, for a user with read-only rights
	List    []string // for latchkey ls and top
	Cluster []string // additional rights in a cluster
	Acks    []string // for WithReplicaAck
	Check   []string // for Client.Check
	History []string // for WithHistory
	OwnTags []string // for names with a hash tag of their own
}

// Usual returns Base and, if the server of [Find] has sharded pub/sub, Sharded.
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

// Documented reads docs/security.md, with prefix in place of "app:". An empty
// prefix is for an application with arbitrary names.
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
		case strings.Contains(line, "| `WithHistory`"):
			to = &r.History
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
	if r.Base == nil || r.Sharded == nil || len(r.Look) < 2 || r.List == nil || r.Cluster == nil || r.Acks == nil || r.Check == nil || r.History == nil || r.OwnTags == nil {
		return Rights{}, fmt.Errorf("redistest: docs/security.md is not as expected: %+v", r)
	}
	return r, nil
}

// securityText searches for the file from the working directory upwards.
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

// served are the addresses that have the users: of servers, and of proxies in
// front of them.
var served sync.Map

// userArgs returns the arguments that give the server its users. They must
// exist from the start, while the server loads its data. A Sentinel has none.
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
	// The first pattern now means all keys, and the server accepts no other
	// pattern beside it.
	rules = slices.DeleteFunc(rules, func(rule string) bool { return rule[0] == '~' && rule != "~*" })
	some := append([]string{"--user", userName, "on", ">" + userSecret}, rules...)
	rules = slices.DeleteFunc(rules, func(rule string) bool { return rule[0] == '&' })
	all := append(append([]string{"--user", userOnAny, "on", ">" + userSecret}, rules...), "&*")
	served.Store(s.Addr, true)
	return slices.Concat(some, all), nil
}

// Allow gives the library's users the rights to the commands that
// docs/security.md lists for WithReplicaAck, Check, lists and WithHistory, as far as the server has
// them.
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
		if !slices.Contains(slices.Concat(r.Acks, r.Check, r.List, r.History), right) {
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

// knows reports whether the server has a command.
func (s *Server) knows(t testing.TB, command string) bool {
	t.Helper()
	var known []string
	command, _, _ = strings.Cut(strings.ToLower(command), "|") // before 7.0 COMMAND INFO has no subcommands
	Until(t, "an answer", func() bool {                        // a Sentinel may have cut all connections
		var err error
		known, err = s.do("COMMAND", "INFO", command)
		return err == nil
	})
	return len(known) > 0 && known[0] != ""
}

// UserName returns the user as which the library's connections log in.
func UserName() string { return libraryUsers()[0] }

// libraryUsers returns the users as which the library runs.
func libraryUsers() []string {
	if Minimal() {
		return []string{userName, userOnAny}
	}
	return []string{"default"}
}

// Deny takes the right to a command from the library until allow is called.
func (s *Server) Deny(t testing.TB, command string) (allow func()) {
	t.Helper()
	if !s.knows(t, command) {
		return func() {} // the server does not need it
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

// checkDenied fails the test if a request of the library was denied. The
// library itself may not notice: without a channel it polls.
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

// Denied returns what the server has denied to a user, according to ACL LOG.
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
		// go-redis tries CLIENT SETINFO and can do without it. Redis 6.2 logs
		// it as client.
		if slices.Contains(users, entry["username"]) && entry["object"] != "client|setinfo" && entry["object"] != "client" {
			out = append(out, fmt.Sprintf("%s %s (%s, %s times)", entry["reason"], entry["object"], entry["context"], entry["count"]))
		}
	}
	return out
}

// AsUser makes options log in as the library's user, if there is one and they
// name no other, and returns them.
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

// User returns the connection that the library is to use in a test which has
// rdb: rdb itself, or, with LATCHKEY_ACL=minimal, one with the same options
// that is logged in as the library's user. All calls with one rdb share it, and
// it is closed at the end of the last of their tests. A connection to any other
// server, or of a user of the test's own, is returned unchanged.
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

// loggedIn returns a new client with the options of rdb and this user, or nil
// if there is no such user.
func loggedIn(rdb redis.UniversalClient, user string) redis.UniversalClient {
	switch rdb := rdb.(type) {
	case *redis.Client:
		o := *rdb.Options()
		if _, ok := served.Load(o.Addr); !ok || o.Username != "" {
			return nil
		}
		o.Username, o.Password, o.PushNotificationProcessor = user, userSecret, nil
		o.MaintNotificationsConfig = nil // rdb writes to it
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

// asGiven undoes go-redis's conversion of an option: go-redis turns -1 into 0,
// which would mean the default if it were passed again.
func asGiven[T int | time.Duration](option *T) {
	if *option == 0 {
		*option = -1
	}
}

// timeoutAsGiven is asGiven for an option that may also be -2, which stands for
// -1.
func timeoutAsGiven(option *time.Duration) {
	if *option <= 0 {
		*option--
	}
}
