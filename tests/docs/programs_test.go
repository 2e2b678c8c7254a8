package docs_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/latchkey-go/latchkey/internal/redistest"
)

var update = flag.Bool("update", false, "write the programs of examples/, and what they print, into docs/recipes.md")

// program finds a program in docs/recipes.md: a link to its file, its text, and
// what it prints.
var program = regexp.MustCompile("(?ms)^[^\n]*\\]\\(\\.\\./(examples/[^)]+)\\):\n\n(```go\n.*?^```)(?:\n\nIt prints\n\n(```text\n.*?^```))?$")

// The programs of docs/recipes.md are those of examples/, all of them, and print
// what is said there.
func TestRecipes(t *testing.T) {
	redistest.Long(t, "each program is linked and run")
	mains, err := fs.Glob(os.DirFS(root), "examples/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	printed := runExamples(t, slices.DeleteFunc(mains, func(file string) bool { return file == first })...)
	text := read(t, "docs/recipes.md")
	var shown []string
	for _, m := range program.FindAllStringSubmatch(text, -1) {
		file := m[1]
		shown = append(shown, file)
		if want := "```go\n" + read(t, file) + "```"; m[2] != want {
			if !*update {
				t.Errorf("docs/recipes.md: the program is not that of %s; go test ./tests/docs -update copies it", file)
			}
			text = strings.Replace(text, file+"):\n\n"+m[2], file+"):\n\n"+want, 1)
		}
		out, isProgram := printed[filepath.Dir(file)]
		if want := "```text\n" + out + "```"; isProgram && m[3] != want {
			if !*update {
				t.Errorf("%s prints %q, and docs/recipes.md says %q", file, out, m[3])
			}
			before, after, _ := strings.Cut(text, file)
			text = before + file + strings.Replace(after, "It prints\n\n"+m[3], "It prints\n\n"+want, 1)
		}
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, "docs/recipes.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := fs.Glob(os.DirFS(root), "examples/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return file == first })
	if slices.Sort(shown); !slices.Equal(shown, files) {
		t.Errorf("docs/recipes.md shows %q, and there are %q", shown, files)
	}
}

// runExamples runs each of the programs on a server of its own, and returns what they
// have printed, by directory. The first one does not read REDIS_URL, so that its address
// is put into its text.
func runExamples(t *testing.T, mains ...string) map[string]string {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	text := strings.Replace(read(t, first), "localhost:6379", redistest.Start(t).Addr, 1)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(top, first): write("first.go", text)}})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-overlay", write("overlay.json", string(overlay)), "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, file := range mains {
		args = append(args, "./"+filepath.Dir(file))
	}
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := map[string]string{}
	for _, file := range mains {
		name := filepath.Dir(file)
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, filepath.Base(name)))
		cmd.Env = os.Environ()
		if file != first {
			cmd.Env = append(cmd.Env, "REDIS_URL=redis://"+redistest.Start(t).Addr)
		}
		printed[name] = run(t, cmd)
	}
	return printed
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v: %v\n%s", cmd, err, stderr.String())
	}
	return stdout.String()
}

const first = "examples/first/main.go"

// The first program of the READMEs is examples/first, and prints what they say.
func TestFirstProgram(t *testing.T) {
	comment, text, _ := strings.Cut(read(t, first), "\n")
	if !strings.HasPrefix(comment, "// First") {
		t.Errorf("%s begins with %q", first, comment)
	}
	printed := runExamples(t, first)["examples/first"]
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		all := blocks(t, name)
		if len(all) < 3 || all[1].lang != "go" || all[1].code != text {
			t.Errorf("%s: the first program is not that of %s", name, first)
		} else if all[2].lang != "text" || all[2].code != printed {
			t.Errorf("%v: it prints %q", all[2], printed)
		}
	}
}

// sections are the headings of README.md, and what they are in README.zh-CN.md.
var sections = [][2]string{
	{"# latchkey", "# latchkey"},
	{"## Primitives", "## 同步原语"},
	{"## What is guaranteed", "## 保证什么"},
	{"## What is not guaranteed", "## 不保证什么"},
	{"## Try it", "## 试一试"},
	{"## Speed", "## 速度"},
	{"## Use it with", "## 搭配使用"},
	{"## Read on", "## 延伸阅读"},
	{"## Status", "## 现状"},
}

// Both READMEs have the same sections, of the same size, and the same code.
func TestREADMEsAgree(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^(\||- |!\[)`)
	links := regexp.MustCompile(`\]\(([^)]+)\)`)
	parts := func(name string, column int) []string {
		text := fence.ReplaceAllStringFunc(read(t, name), func(b string) string {
			return fmt.Sprint("(", strings.Count(b, "\n"), " lines)")
		})
		var found []string
		for _, part := range regexp.MustCompile(`(?m)^#+ `).Split(text, -1)[1:] {
			heading, body, _ := strings.Cut(part, "\n")
			want := ""
			for _, s := range sections {
				if strings.TrimLeft(s[column], "# ") == heading {
					want = s[0]
				}
			}
			if want == "" {
				t.Errorf("%s: %q is not in the table of this test", name, heading)
			}
			var to []string
			for _, m := range links.FindAllStringSubmatch(body, -1) {
				if !strings.HasPrefix(m[1], "README") {
					to = append(to, m[1])
				}
			}
			slices.Sort(to)
			found = append(found, fmt.Sprintf("%s: %d rows, links %q", want, len(rows.FindAllString(body, -1)), slices.Compact(to)))
		}
		return found
	}
	english, chinese := parts("README.md", 0), parts("README.zh-CN.md", 1)
	if len(english) != len(sections) {
		t.Errorf("README.md has %d sections, the table of this test %d", len(english), len(sections))
	}
	for i := range max(len(english), len(chinese)) {
		var e, c string
		if i < len(english) {
			e = english[i]
		}
		if i < len(chinese) {
			c = chinese[i]
		}
		if e != c {
			t.Errorf("README.md:       %s\nREADME.zh-CN.md: %s", e, c)
		}
	}
}
