package redistest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

// noUser are the test functions that give the library a connection of another
// user, and why.
var noUser = map[string]string{
	"answer_test.go TestOtherRefusals":                     "nobody answers",
	"answer_test.go TestRefusalIsToldAtOnce":               "nobody answers",
	"check_test.go TestCheckWithAWrongPassword":            "nobody is let in",
	"client_test.go TestAcksThroughAWrapperAreUnsupported": "it is the user's, wrapped",
	"client_test.go TestAutoPipeliners":                    "they are of the user's",
	"client_test.go TestNewWithoutRedisPanics":             "there is none",
	"client_test.go TestRingIsUnsupported":                 "nothing is sent",
	"fips_test.go useAll":                                  "a process of its own, without a server of this package",
	"fuzz_options_test.go FuzzOptions":                     "nothing is sent",
	"elect/example_test.go newClient":                      "in memory",
	"fuzz_replies_test.go FuzzReplies":                     "nothing is sent",
	"hooks_test.go TestHooksSeeEverything":                 "it is the user's, with a hook",
	"label_test.go TestLabelGoesWithThePermit":             "in memory",
	"flight/example_test.go newClient":                     "in memory",
	"idem/example_test.go newClient":                       "in memory",
	"once/example_test.go newClient":                       "in memory",
	"ui/ui_test.go TestOptionsAreChecked":                  "nothing is sent",
	"tests/sim/world_test.go newWorld":                     "in memory",
	"tests/topology/security_test.go TestNoSecrets":        "users of its own",
	"tests/leases/watchdog_test.go keep":                   "in memory",
	"rwlock/wait_test.go clientOn":                         "in memory",
}

// loggedIn matches connections that may be passed to the library: those logged
// in as its user, and those to in-memory servers.
var loggedIn = regexp.MustCompile(`^(redistest\.User(OnAny)?\(|redis\.NewClient\(redistest\.AsUser\(|env\.(Redis|Client\()|b\.(Redis|Client\()|nil$)`)

// made matches the definitions of named connections that may be passed to it.
const made = `\b%s :?= (redis\.NewClient\((redistest\.AsUser\(|&redis\.Options\{Addr: "(127\.0\.0\.1:1|192\.0\.2\.1:6379)"\})|(b|env|e\.bubble)\.Client\()`

// TestNoTestForgetsTheUser checks that every connection that a test gives the
// library has been passed through User or AsUser, so that LATCHKEY_ACL=minimal
// applies to all.
func TestNoTestForgetsTheUser(t *testing.T) {
	var forgotten []string
	seen := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch filepath.ToSlash(path) {
			case "../../bench", "../../chaos", "../../cmd", "../../contrib", "../../interop", "../../otel", "../../prom", "../../ui/browser", "../../.cache", "../../.git":
				return filepath.SkipDir // other modules
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(filepath.ToSlash(path), "/locktest/") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		text := func(n ast.Node) []byte { return src[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset] }
		file, err := parser.ParseFile(files, path, src, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || strings.HasPrefix(f.Name.Name, "Example") {
				continue
			}
			where := filepath.ToSlash(path[len("../../"):]) + " " + f.Name.Name
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				if of, ok := call.Fun.(*ast.SelectorExpr); !ok || of.Sel.Name != "New" {
					return true
				} else if pkg, ok := of.X.(*ast.Ident); !ok || pkg.Name != "latchkey" && pkg.Name != "pubsub" {
					return true
				}
				seen++
				given := text(call.Args[0])
				own := regexp.MustCompile(fmt.Sprintf(made, regexp.QuoteMeta(string(given))))
				if !loggedIn.Match(given) && !own.Match(text(f)) && noUser[where] == "" {
					forgotten = append(forgotten, where+": "+string(given))
				}
				return true
			})
		}
		return nil
	}))
	require.Greater(t, seen, 50)
	slices.Sort(forgotten)
	require.Empty(t, forgotten, "each goes through redistest.User or AsUser, or is named in noUser")
}

func TestUser(t *testing.T) {
	t.Setenv("LATCHKEY_ACL", "minimal")
	s := redistest.Start(t)
	raw := s.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout, o.WriteTimeout = -1, -1, -2 })
	user := redistest.User(t, raw)
	require.Same(t, user, redistest.User(t, raw), "one for all")
	require.NotSame(t, user, redistest.UserOnAny(t, raw))
	o := user.(*redis.Client).Options()
	require.Zero(t, o.MaxRetries)
	require.Zero(t, o.ReadTimeout)
	require.Equal(t, time.Duration(-1), o.WriteTimeout)

	require.NoError(t, user.Set(t.Context(), "any name", 1, 0).Err())
	require.NoError(t, user.Publish(t.Context(), "redisson_lock__channel:{any name}", 0).Err())
	require.NoError(t, redistest.UserOnAny(t, raw).Publish(t.Context(), "any channel", 0).Err())
	p := redistest.NewProxy(t, s.Addr)
	require.NotSame(t, raw, redistest.User(t, s.Client(t, func(o *redis.Options) { o.Addr = p.Addr() })), "through a proxy")
	require.NoError(t, redis.NewClient(redistest.AsUser(&redis.Options{Addr: p.Addr()})).Close())
	s.Restart(t)
	redistest.Until(t, "the user to be there again", func() bool { return user.Get(t.Context(), "any name").Err() == redis.Nil })

	err := redistest.Program(t.Context(), nil, func(t testing.TB) {
		s := redistest.Start(t)
		_ = redistest.User(t, s.Client(t)).HIncrBy(t.Context(), "a", "b", 1).Err()
		_ = redistest.User(t, s.Client(t)).Publish(t.Context(), "other", 1).Err()
	})
	require.ErrorContains(t, err, "denied to the library: command hincrby")
	require.ErrorContains(t, err, "denied to the library: channel other")
	require.NoError(t, redistest.Program(t.Context(), nil, func(t testing.TB) {
		s := redistest.Start(t)
		allow := s.Deny(t, "set")
		if err := redistest.User(t, s.Client(t)).Set(t.Context(), "a", 1, 0).Err(); err == nil {
			t.Error("not denied")
		}
		allow()
		if err := redistest.User(t, s.Client(t)).Set(t.Context(), "a", 1, 0).Err(); err != nil {
			t.Error(err)
		}
	}))
}
