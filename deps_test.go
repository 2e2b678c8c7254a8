package latchkey_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/latchkey-go/latchkey"

// importLevels defines which packages may import which: the code of a package
// imports only packages of this module with a lower level. "" is the root
// package. A package that does not exist yet does no harm here. A package that
// exists and is missing here fails the test, so that its level is chosen.
var importLevels = map[string]int{
	"lua": 0, "internal/names": 0, "internal/text": 0, "internal/lifecycle": 0, "internal/watchdog": 0, "internal/wait": 0,
	"pubsub": 1, "internal/run": 1,
	"internal/engine":  2,
	"internal/inspect": 3, "internal/check": 3, "internal/history": 3,
	"":               4,
	"internal/async": 5, "internal/object": 5,
	"rlock": 6, "fairlock": 6, "rwlock": 6, "semaphore": 6,
	"permitsemaphore": 6, "countdownlatch": 6, "multilock": 6,
	"once": 7, "elect": 7, "internal/memo": 7, "internal/force": 7,
	"flight": 8, "idem": 8, "ui": 8,
}

// testPackages are the packages, with all below them, that users never link
// into a program. They may import any package, and no library package may
// import them.
var testPackages = []string{"internal/redistest", "internal/locktest", "internal/bubble", "internal/text/texttest", "latchkeytest", "interop", "tests", "examples"}

func forTests(name string) bool {
	return slices.ContainsFunc(testPackages, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") })
}

var (
	// directModules may be imported by library code. The default answer to
	// another one is no.
	directModules = []string{"github.com/redis/go-redis/v9", "github.com/google/uuid"}

	// indirectModules come with directModules and must not be imported here.
	indirectModules = []string{"github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sys"}
)

func TestLibraryImports(t *testing.T) {
	noteSourceFiles(t)
	pkgs := listPackages(t)
	if _, ok := pkgs[modulePath]; !ok {
		t.Fatalf("go list does not know %s; it gave %d packages", modulePath, len(pkgs))
	}
	for _, fault := range importFaults(pkgs) {
		t.Error(fault)
	}
}

// goPackage is go list's description of a package.
type goPackage struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Imports    []string
}

// listPackages returns the packages of this module and all that they import,
// except what only tests import.
func listPackages(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Module,Imports", "./...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	pkgs := map[string]goPackage{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg goPackage
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("output of %v: %v", cmd, err)
		}
		pkgs[pkg.ImportPath] = pkg
	}
}

// noteSourceFiles reads every Go file below this directory. The go command
// reuses an old result as long as the files that a test has read are unchanged,
// and does not see what the test's own go list reads.
func noteSourceFiles(t *testing.T) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			_, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile, by an editor for instance
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// importFaults returns the imports in pkgs that break the rules, in order.
func importFaults(pkgs map[string]goPackage) []string {
	var faults []string
	for _, path := range slices.Sorted(maps.Keys(pkgs)) {
		name, ours := inModule(path)
		if !ours || forTests(name) {
			continue
		}
		level, known := importLevels[name]
		if !known {
			faults = append(faults, fmt.Sprintf("%s has no place in importLevels of deps_test.go", path))
			continue
		}
		for _, imported := range pkgs[path].Imports {
			if fault := directFault(pkgs, level, imported); fault != "" {
				faults = append(faults, fmt.Sprintf("%s imports %s, %s", path, imported, fault))
			}
		}
		faults = append(faults, transitiveFaults(pkgs, path)...)
	}
	return faults
}

// directFault returns why a library package on the given level may not import
// path, or "" if it may.
func directFault(pkgs map[string]goPackage, level int, path string) string {
	name, ours := inModule(path)
	if ours {
		theirs, known := importLevels[name]
		switch {
		case forTests(name):
			return "which is for tests"
		case known && theirs >= level:
			return fmt.Sprintf("which is not on a lower level (%d, its own is %d)", theirs, level)
		}
		return "" // a package without a level is reported by itself
	}
	pkg, listed := pkgs[path]
	switch {
	case !listed:
		return "which go list does not know"
	case pkg.Standard, slices.Contains(directModules, moduleOf(pkg)):
		return ""
	}
	return "which is outside the standard library, this module, go-redis and uuid"
}

// transitiveFaults returns the packages in forbidden modules that root imports,
// at any distance, and how.
func transitiveFaults(pkgs map[string]goPackage, root string) []string {
	var faults []string
	from := map[string]string{root: ""}
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		path := queue[0]
		pkg := pkgs[path]
		if _, ours := inModule(path); !ours {
			if pkg.Standard {
				continue
			}
			if m := moduleOf(pkg); !slices.Contains(directModules, m) && !slices.Contains(indirectModules, m) {
				way := path
				for p := from[path]; p != ""; p = from[p] {
					way = p + " -> " + way
				}
				faults = append(faults, "not in the allow list of modules: "+way)
				continue
			}
		}
		for _, imported := range pkg.Imports {
			if _, seen := from[imported]; !seen {
				from[imported] = path
				queue = append(queue, imported)
			}
		}
	}
	return faults
}

// inModule returns the directory of the package within this module.
func inModule(path string) (dir string, ok bool) {
	if path == modulePath {
		return "", true
	}
	return strings.CutPrefix(path, modulePath+"/")
}

func moduleOf(pkg goPackage) string {
	if pkg.Module == nil {
		return ""
	}
	return pkg.Module.Path
}

func TestImportFaultsAreSeen(t *testing.T) {
	const (
		redis = "github.com/redis/go-redis/v9"
		hash  = "github.com/cespare/xxhash/v2"
		other = "example.com/other"
	)
	tests := []struct {
		rule, pkg, imports, want string
	}{
		{"go-redis", "/rlock", redis, ""},
		{"own package below", "/rlock", modulePath + "/internal/engine", ""},
		{"test package", "/internal/redistest", other, ""},
		{"another primitive", "/rlock", modulePath + "/fairlock", "lower level"},
		{"primitive from root", "", modulePath + "/rlock", "lower level"},
		{"root from engine", "/internal/engine", modulePath, "lower level"},
		{"within level 0", "/internal/watchdog", modulePath + "/internal/wait", "lower level"},
		{"engine from level 0", "/internal/watchdog", modulePath + "/internal/engine", "lower level"},
		{"harness", "/rlock", modulePath + "/internal/redistest", "for tests"},
		{"public harness", "", modulePath + "/latchkeytest", "for tests"},
		{"below a test package", "", modulePath + "/tests/topology", "for tests"},
		{"other module", "/lua", other, "outside the standard library"},
		{"dependency's dependency", "/lua", hash, "outside the standard library"},
		{"other module, far away", "/rlock", redis + "/far", "allow list of modules: " + modulePath + "/rlock -> " + redis + "/far -> " + other},
		{"no place", "/internal/misc", "fmt", "importLevels"},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			pkgs := map[string]goPackage{}
			add := func(path, module string, imports ...string) {
				pkgs[path] = goPackage{ImportPath: path, Module: &struct{ Path string }{module}, Imports: imports}
			}
			add(redis, redis, hash)
			add(redis+"/far", redis, other)
			add(hash, hash)
			add(other, other)
			pkgs["fmt"] = goPackage{ImportPath: "fmt", Standard: true}
			add(modulePath+tt.pkg, modulePath, tt.imports)

			got := strings.Join(importFaults(pkgs), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("faults: got %q, want one with %q", got, tt.want)
			}
		})
	}
}
