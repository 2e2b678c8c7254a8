package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// redissonVersion is the release that is measured, as in interop/java/pom.xml.
const redissonVersion = "4.7.0"

// findRedisson returns the command that runs the driver in interop/java, which it
// compiles first, as the tests there do.
func findRedisson(interop string) ([]string, error) {
	for _, tool := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not on the PATH", tool)
		}
	}
	java, err := filepath.Abs(filepath.Join(interop, "java"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(java, "pom.xml")); err != nil {
		return nil, fmt.Errorf("the driver is not there (-interop): %w", err)
	}
	list := filepath.Join(java, "target", "classpath-"+redissonVersion+".txt")
	if !built(list, java) {
		out, err := exec.Command("mvn", "-B", "-q", "-ntp", "-f", filepath.Join(java, "pom.xml"), "compile",
			"dependency:build-classpath", "-Dredisson.version="+redissonVersion, "-Dmdep.outputFile="+list).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("mvn: %w: %s", err, strings.Join(strings.Fields(string(out)), " "))
		}
	}
	jars, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	classes := filepath.Join(java, "target", "classes") + string(filepath.ListSeparator) + strings.TrimSpace(string(jars))
	return []string{"java", "-Xmx256m", "-cp", classes, "latchkey.interop.Main"}, nil
}

// built reports whether the list of jars, which is written after the classes, is
// younger than every source.
func built(list, java string) bool {
	info, err := os.Stat(list)
	if err != nil {
		return false
	}
	err = filepath.WalkDir(java, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == "target" {
			return filepath.SkipDir
		}
		if of, err := entry.Info(); err != nil || entry.Type().IsRegular() && of.ModTime().After(info.ModTime()) {
			return errors.Join(err, errors.New(path+" is younger"))
		}
		return nil
	})
	return err == nil
}

// A redisson is a JVM with one Redisson client.
type redisson struct {
	*pipedProcess
	t     *task
	lines *bufio.Scanner
}

func startRedisson(command []string, t *task) (worker, error) {
	if t.Work != "loop" {
		return nil, errors.New("not done with Redisson")
	}
	p, out, err := startPiped(exec.Command(command[0], command[1:]...), t.limit())
	if err != nil {
		return nil, err
	}
	mine := *t
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &redisson{p, &mine, lines}, nil
}

// send sends a command, which is answered by a line.
func (r *redisson) send(words ...any) error {
	_, err := fmt.Fprint(r.in, "1 main client ", fmt.Sprintln(words...))
	return err
}

func (r *redisson) answer() (string, error) {
	if !r.lines.Scan() {
		return "", r.fault(errors.New("the JVM has ended"))
	}
	value, ok := strings.CutPrefix(r.lines.Text(), "1 ok")
	if !ok {
		return "", fmt.Errorf("java: %s", r.lines.Text())
	}
	return strings.TrimSpace(value), nil
}

// bench sends the task, for a time.
func (r *redisson) bench(d time.Duration) error {
	t := r.t
	object := map[string]string{objectLock: "rlock", objectFair: "fair", objectRead: "read", objectSemaphore: "sem"}[t.Object]
	return r.send("bench", object, "compare", t.Names, t.Goroutines, t.Limit, t.Process, d.Milliseconds(), t.Page)
}

// ready opens the client and lets the compiler of the JVM do its work: for two
// seconds, or as long as the turn, if that is shorter.
func (r *redisson) ready() error {
	if err := r.send("open", "single="+r.t.Addrs[0]); err != nil {
		return err
	}
	if _, err := r.answer(); err != nil {
		return err
	}
	if err := r.bench(min(2*time.Second, r.t.For)); err != nil {
		return err
	}
	_, err := r.answer()
	return err
}

func (r *redisson) begin() error { return r.bench(r.t.For) }

// outcome reads what Bench.java answers: operations, changes of the holder,
// overlaps, CPU ns, heap bytes, threads, longest ns, and bucket:count for each
// bucket.
func (r *redisson) outcome() (*outcome, error) {
	text, err := r.answer()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(text)
	if len(words) < 7 {
		return nil, fmt.Errorf("java: %q", text)
	}
	var n [7]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return nil, err
		}
	}
	o := &outcome{
		Ops: n[0], Changed: n[1], Overlaps: n[2], CPU: time.Duration(n[3]), Heap: n[4], Routines: int(n[5]),
		Max: time.Duration(n[6]), Elapsed: r.t.For, Times: histogram{}, Sent: askServer,
	}
	for _, word := range words[7:] {
		var bucket int
		var count int64
		if _, err := fmt.Sscanf(word, "%d:%d", &bucket, &count); err != nil {
			return nil, err
		}
		o.Times[bucket] = count
	}
	return o, nil
}
