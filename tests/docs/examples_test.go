package docs_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// public are the packages that users import.
var public = []string{
	".", "rlock", "fairlock", "rwlock", "semaphore", "permitsemaphore", "countdownlatch", "multilock", "once", "elect", "flight", "idem", "latchkeytest", "otel", "prom",
}

// Every constructor, option and other function of the public packages has an
// example, which prints something where it needs no test around it.
func TestEveryFunctionHasAnExample(t *testing.T) {
	for _, dir := range public {
		examples := map[string]*doc.Example{}
		functions := map[string]bool{}
		for name, file := range parse(t, dir) {
			if strings.HasSuffix(name, "_test.go") {
				for _, e := range doc.Examples(file) {
					examples[e.Name] = e
				}
				continue
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
					functions[f.Name.Name] = true
				}
			}
		}
		if len(functions) == 0 {
			t.Errorf("%s has no functions", dir)
		}
		for _, f := range slices.Sorted(maps.Keys(functions)) {
			if e := exampleOf(f, examples); e == nil {
				t.Errorf("%s: %s has no example", dir, f)
			} else if e.Output == "" && !e.EmptyOutput && dir != "latchkeytest" && dir != "otel" && dir != "prom" {
				t.Errorf("%s: the example of %s has no output", dir, f)
			}
		}
	}
}

// exampleOf returns an example of the function: that of the package is one of
// New.
func exampleOf(function string, examples map[string]*doc.Example) *doc.Example {
	if e := examples[function]; e != nil {
		return e
	}
	for name, e := range examples {
		if strings.HasPrefix(name, function+"_") || function == "New" && name == "" {
			return e
		}
	}
	return nil
}

// parse returns the Go files of a directory.
func parse(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	names, err := fs.Glob(os.DirFS(filepath.Join(root, dir)), "*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(dir, names, err)
	}
	files, fset := map[string]*ast.File{}, token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, read(t, filepath.Join(dir, name)), parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}
