package interop

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// needTools ends the test when there is no JDK or no Maven: skipped on a
// developer's machine, failed where a skipped test would go unseen.
func needTools(t *testing.T) {
	t.Helper()
	var missing []string
	for tool, of := range map[string]string{
		"java":  "a JDK, 17 or later",
		"javac": "a JDK, 17 or later",
		"mvn":   "Maven",
	} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, fmt.Sprintf("%s (%s)", tool, of))
		}
	}
	if len(missing) == 0 {
		return
	}
	text := "the tests with real Redisson need " + strings.Join(missing, " and ") + " on the PATH"
	if os.Getenv("CI") != "" || os.Getenv("INTEROP") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
}

// classpath returns the class path of the driver with a release of Redisson. It
// compiles and downloads what is missing or out of date.
func classpath(t *testing.T, v version) string {
	t.Helper()
	needTools(t)
	const classes = "java/target/classes"
	list := fmt.Sprintf("java/target/classpath-%s.txt", v)
	built := newest(t, classes)
	if source := newest(t, "java/src"); !built.After(source) {
		maven(t, "compile")
	}
	if !complete(list) {
		abs, err := filepath.Abs(list)
		if err != nil {
			t.Fatal(err)
		}
		maven(t, "dependency:build-classpath", "-Dredisson.version="+string(v), "-Dmdep.outputFile="+abs)
	}
	jars, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	return classes + string(filepath.ListSeparator) + strings.TrimSpace(string(jars))
}

// newest returns when the last file below dir was written; zero if there is none.
func newest(t *testing.T, dir string) time.Time {
	t.Helper()
	var last time.Time
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return last
}

// complete reports whether the list of jars is there, is younger than the POM,
// and names only what is there.
func complete(list string) bool {
	info, err := os.Stat(list)
	pom, perr := os.Stat("java/pom.xml")
	if err != nil || perr != nil || !info.ModTime().After(pom.ModTime()) {
		return false
	}
	jars, err := os.ReadFile(list)
	if err != nil {
		return false
	}
	for _, jar := range filepath.SplitList(strings.TrimSpace(string(jars))) {
		if _, err := os.Stat(jar); err != nil {
			return false
		}
	}
	return true
}

func maven(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "mvn", append([]string{"-B", "-q", "-ntp", "-f", "java/pom.xml"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}
