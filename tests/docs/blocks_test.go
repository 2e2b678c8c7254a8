// Package docs_test holds the documents to what the code is.
package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

const (
	root   = "../.."
	module = "github.com/latchkey-go/latchkey"
)

// A block is a code block of a document.
type block struct {
	file string
	line int // the first one of the code
	lang string
	code string
}

// packageName returns what the block's package clause says, "" without one.
func (b block) packageName() string {
	if m := clause.FindStringSubmatch(b.code); m != nil {
		return m[1]
	}
	return ""
}

var clause = regexp.MustCompile(`^(?://[^\n]*\n|\n)*package (\w+)\n`)

func (b block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// documents returns the names of all documents of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "*/README.md", "*/*/README.md"} {
		found, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	if len(names) < 10 {
		t.Fatalf("found only %q", names)
	}
	return names
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the code blocks of a document.
func blocks(t *testing.T, file string) []block {
	t.Helper()
	text := read(t, file)
	var found []block
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		found = append(found, block{
			file: file, line: 1 + strings.Count(text[:at[4]], "\n"),
			lang: text[at[2]:at[3]], code: text[at[4]:at[5]],
		})
	}
	return found
}

// Each Go block compiles: a program as it stands, anything else as CONTRIBUTING.md
// says. Files of a package are one.
func TestGoBlocksCompile(t *testing.T) {
	redistest.Long(t, "it compiles all that the documents import")
	noteSourceFiles(t)
	var all [][]block
	for _, file := range documents(t) {
		packages := map[string]int{}
		for _, b := range blocks(t, file) {
			if b.lang != "go" {
				continue
			}
			name := b.packageName()
			if i, ok := packages[name]; ok && name != "" && name != "main" {
				all[i] = append(all[i], b)
				continue
			}
			packages[name] = len(all)
			all = append(all, []block{b})
		}
	}
	if len(all) < 15 {
		t.Fatalf("only %d blocks", len(all))
	}
	c := newCompiler(t)
	for _, files := range all {
		for _, fault := range c.check(files...) {
			t.Error(fault)
		}
	}
}

func TestFaultsOfBlocksAreSeen(t *testing.T) {
	redistest.Long(t, "as TestGoBlocksCompile")
	c := newCompiler(t)
	for code, want := range map[string]string{
		"hold, err := lock.Lock(ctx)\ndefer hold.Unlock(ctx)\n":         "",
		"return errors.New(\"no\")\n":                                   "",
		"func f() {}\n":                                                 "",
		"hold, err := lock.Lock()\n":                                    "x.md:7: not enough arguments",
		"n := 1\n\nnothing.Do(n)\n":                                     "x.md:9: undefined: nothing",
		"if {\n":                                                        "x.md:7: ",
		"package main\n\nimport \"fmt\"\n\nfunc main() {}\n":            "x.md:9: \"fmt\" imported and not used",
		"package main\n\nfunc main() {\n\tn := 1\n}\n":                  "x.md:10: declared and not used",
		"latchkey.Do(ctx, lock, func(ctx context.Context) {})\n":        "x.md:7: cannot use (func",
		"s := permitsemaphore.New(client, \"a\")\n_, err = s.Acquire()": "x.md:8: not enough arguments",
	} {
		got := strings.Join(c.check(block{"x.md", 7, "go", code}), "\n")
		if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %q, want %q", code, got, want)
		}
	}
}

// given is what a fragment may use without saying where it comes from.
const given = `
	ctx    context.Context
	rdb    *redis.Client
	client *latchkey.Client
	lock   *rlock.Lock
	hold   *latchkey.Hold
	err    error

	tracing redis.Hook
`

// A compiler checks blocks as the Go compiler does.
type compiler struct {
	files  *token.FileSet
	lookup types.Importer
	paths  map[string]string // of packages, by name
}

// compilers is shared by the tests; it is filled once.
var compilers *compiler

func newCompiler(t *testing.T) *compiler {
	t.Helper()
	if compilers != nil {
		return compilers
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Name,Export,Standard",
		".", "./rlock", "./fairlock", "./rwlock", "./semaphore", "./permitsemaphore", "./countdownlatch", "./multilock", "./once", "./elect", "./flight", "./idem", "./ui", "./latchkeytest", "./prom", "./otel",
		"net/http", "net/http/httptest", "os/signal", "database/sql", "log", "log/slog", "sync", "testing/synctest")
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	c := &compiler{files: token.NewFileSet(), paths: map[string]string{}}
	exports := map[string]string{}
	rank := func(path string, standard bool) int { // who has the name, if several would
		switch {
		case strings.Contains("/"+path+"/", "/internal/"), strings.HasPrefix(path, "vendor/"):
			return 0
		case strings.HasPrefix(path, module):
			return 3
		case standard && !strings.Contains(path, "text/"):
			return 2
		}
		return 1
	}
	ranks := map[string]int{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Name, Export string
			Standard                 bool
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if r := rank(p.ImportPath, p.Standard); r > ranks[p.Name] {
			ranks[p.Name], c.paths[p.Name] = r, p.ImportPath
		}
	}
	c.lookup = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(exports[path])
	})
	compilers = c
	return c
}

// check returns what is wrong with a block, or with the files of a package.
func (c *compiler) check(of ...block) (faults []string) {
	whole := of[0].packageName() != ""
	var files []*ast.File
	for _, b := range of {
		source := fmt.Sprintf("//line %s:%d\n%s", b.file, b.line, b.code)
		if !whole {
			source = c.wrap(b)
		}
		file, err := parser.ParseFile(c.files, "", source, parser.SkipObjectResolution)
		if err != nil {
			return []string{err.Error()}
		}
		files = append(files, file)
	}
	conf := types.Config{Importer: c.lookup, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && (whole || !e.Soft) { // a fragment need not use what it declares
			at := c.files.Position(e.Pos)
			faults = append(faults, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, e.Msg))
		}
	}}
	_, _ = conf.Check(files[0].Name.Name, c.files, files, nil)
	return faults
}

var (
	qualified   = regexp.MustCompile(`\b([a-z][a-z0-9]*)\.[A-Z]`)
	declaration = regexp.MustCompile(`^(//[^\n]*\n)*(func [A-Z(a-z]|type |var |const )`)
)

// wrap makes a file of a fragment.
func (c *compiler) wrap(b block) string {
	names := map[string]bool{}
	for _, m := range qualified.FindAllStringSubmatch(given+b.code, -1) {
		if c.paths[m[1]] != "" {
			names[m[1]] = true
		}
	}
	var s strings.Builder
	s.WriteString("package fragment\n")
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&s, "import %s %s\n", name, strconv.Quote(c.paths[name]))
	}
	fmt.Fprintf(&s, "var (%s)\n", given)
	open, shut := "func _() error {\n", "\nreturn nil\n}\n"
	if declaration.MatchString(b.code) {
		open, shut = "", ""
	}
	fmt.Fprintf(&s, "%s//line %s:%d\n%s%s", open, b.file, b.line, b.code, shut)
	return s.String()
}

// noteSourceFiles looks at every Go file of the repository: the go command repeats an
// old result as long as the files that a test looked at are unchanged, and does not see
// what go list looks at.
func noteSourceFiles(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var link = regexp.MustCompile(`\]\(([^)#: ]*)(?:#([^)]+))?\)`)

// What documents link to, in this repository, is there: the file, and the heading.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, file), ""), -1) {
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if m[2] != "" && !slices.Contains(anchors(read(t, target)), m[2]) {
				t.Errorf("%s: %s has no heading for #%s", file, target, m[2])
			}
		}
	}
}

var (
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	punctuation = regexp.MustCompile(`[^\pL\pN_ -]`)
)

// anchors returns what links to the headings of a document say, as GitHub makes it.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}
