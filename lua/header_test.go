package lua_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every script opens with its contract: what it is, what it takes, what it
// returns. These tests hold the text of the contract against the script.

func TestScriptsKeepTheirContracts(t *testing.T) {
	for _, path := range scripts(t) {
		t.Run(path, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range contractFaults(path, string(text)) {
				t.Error(fault)
			}
		})
	}
}

func TestScriptsAreEmbedded(t *testing.T) {
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	embedded := map[string]bool{}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if names, ok := strings.CutPrefix(strings.TrimSpace(line), "//go:embed "); ok {
				for _, name := range strings.Fields(names) {
					embedded[name] = true
				}
			}
		}
	}
	for _, path := range scripts(t) {
		if !embedded[path] {
			t.Errorf("%s is on disk, but no //go:embed line names it", path)
		}
	}
}

// scripts returns the path of every script under this directory, with slashes.
func scripts(t *testing.T) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".lua") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("there is no .lua file under this directory")
	}
	return found
}

var (
	declaration = regexp.MustCompile(`^--\s+(KEYS|ARGV)\[([^\]]+)\]`)
	openRange   = regexp.MustCompile(`^(\d+)\.\.\.$`)
	fixedIndex  = regexp.MustCompile(`^\d+$`)
	returnsLine = regexp.MustCompile(`^--\s+Returns\b`)
	argument    = regexp.MustCompile(`(#\s*)?\b(KEYS|ARGV)\b(?:\s*\[\s*(\d+)\s*\])?(\s*\[)?`)
	errorText   = regexp.MustCompile(`[(,]\s*[\w.\[\]]*\.err\b|\.err\s*(?::|[=~]=|\.\.)`)
	forbidden   = regexp.MustCompile(`\b(bit|struct|cmsgpack)\s*\.`)
	notCode     = regexp.MustCompile(`(?s)--\[\[.*?\]\]|--[^\n]*|\[\[.*?\]\]|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`)
)

// contractFaults returns what is wrong with the script at path: with its
// header, or between its header and its body.
//
// A header declares an argument by its number ("KEYS[1]"), or by something that
// is no number when the body computes the index: "KEYS[2...]" for all from the
// second on, "ARGV[2i+1]", "KEYS[n]".
func contractFaults(path, text string) []string {
	var faults []string
	faultf := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }

	header, body := splitHeader(text)
	if strings.HasPrefix(text, "#!") {
		faultf("has a shebang, which miniredis and Redis before 7 do not take")
	}
	name := strings.TrimSuffix(path, ".lua")
	about, ok := strings.CutPrefix(header[0], "-- "+name+": ")
	if !ok || strings.TrimSpace(about) == "" {
		faultf("first line is %q, want %q", header[0], "-- "+name+": what it does")
	}
	if !slices.ContainsFunc(header, returnsLine.MatchString) {
		faultf("header has no line that begins with %q", "-- Returns")
	}
	if used := forbidden.FindString(body); used != "" {
		faultf("uses %q, which not every server has", used)
	}

	// inspect/check shows it to people.
	if used := errorText.FindString(body); used != "" && name != "inspect/check" {
		faultf("looks into the text of an error (%q), which each server words in its own way: whether there is one may decide, and TYPE", used)
	}

	faults = append(faults, costFaults(header, strings.Join(strings.Split(text, "\n")[len(header):], "\n"))...)
	faults = append(faults, writesBehindExpiry(strings.Join(strings.Split(text, "\n")[len(header):], "\n"))...)

	declared, used := declaredArguments(header), usedArguments(body)
	if len(declared["KEYS"].fixed) == 0 && !declared["KEYS"].computed && name != "publish" && strings.Contains(body, "call(") {
		faultf("header declares no KEYS; every script names the keys it touches")
	}
	for _, array := range []string{"KEYS", "ARGV"} {
		faults = append(faults, compareArguments(array, declared[array], used[array])...)
	}
	return faults
}

var (
	costLine = regexp.MustCompile(`^-- Cost: `)
	costText = regexp.MustCompile(`^-- Cost: O\(.+\).* for .*\d (?:ms|µs)\b`)
	comment  = regexp.MustCompile(`--[^\n]*`)
	// What takes longer the more there is: commands, loops, all that is in ARGV or KEYS,
	// and what those functions do that scripts have in common.
	growing = regexp.MustCompile(`'(?:HGETALL|HKEYS|HVALS|HSCAN|HRANDFIELD|LREM|LPOS|SSCAN|SMEMBERS|ZSCAN|ZCOUNT|ZRANGEBYSCORE|ZREMRANGEBYSCORE|ZREMRANGEBYRANK)'` +
		`|\b(?:for|while)\b|\bunpack\(|\b(?:look|lasts|sweep|audience)\(`)
	bounded = regexp.MustCompile(`'[LZ]RANGE', [\w.\[\]]+, '?\d+'?, '?\d+'?[,)]|\bfor [\w, ]+ in ipairs\((?:[^()]*(?:and|or) )?\{[^{}]*\}[^()]*\) do|\bfor \w+ = 1, \d+ do`)
	ranges  = regexp.MustCompile(`'[LZ]RANGE'`)
)

// costFaults returns what is wrong with the line that says how long the script takes: one
// whose work grows with something has it, with what that is, and a number.
func costFaults(header []string, body string) []string {
	at := slices.IndexFunc(header, costLine.MatchString)
	if at < 0 {
		body = bounded.ReplaceAllString(comment.ReplaceAllString(body, ""), "")
		used := growing.FindString(body)
		if used == "" {
			used = ranges.FindString(body)
		}
		if used != "" {
			return []string{fmt.Sprintf("has %q, whose work grows, and no line that begins with %q", used, "-- Cost: ")}
		}
		return nil
	}
	text := header[at]
	for _, line := range header[at+1:] {
		if strings.TrimSpace(strings.TrimPrefix(line, "--")) == "" {
			break
		}
		text += strings.TrimPrefix(line, "--")
	}
	if !costText.MatchString(text) {
		return []string{fmt.Sprintf("says %q, want %q", text, "-- Cost: O(n) for n of what, about 2 ms for 1,000")}
	}
	return nil
}

// arguments says which elements of KEYS or of ARGV are meant.
type arguments struct {
	fixed    map[int]bool // by number
	from     int          // and all from this number on; 0 for none
	computed bool         // and some by an index that is no number
}

var (
	writeOrEnd = regexp.MustCompile(`\b(?:call|pcall|try)\('([A-Z]+)',\s*([\w.]+(?:\[[^\]]*\])?)|\b(extend)\((\w+)|\b(anew)\(`)
	notEnded   = regexp.MustCompile(`(?s)if type\(done\) == 'table' then.*?return done`)
)

// writesBehindExpiry returns what the script writes to a key behind its PEXPIRE, and
// without another one behind that: Redis 6.2 and 7.0 may have deleted the key by then, and
// what is written has no end. What a script does where the PEXPIRE was refused does not
// count.
func writesBehindExpiry(text string) (faults []string) {
	text = notEnded.ReplaceAllString(text, "")
	behind := map[string]string{} // for each key that has an end, what was written behind
	ended := map[string]bool{}
	for _, m := range writeOrEnd.FindAllStringSubmatch(text, -1) {
		command, key := m[1], m[2]
		switch {
		case m[3] != "": // in two of renew
			command, key = "PEXPIRE", m[4]
		case m[5] != "": // in fairlock/queue
			command, key = "PEXPIRE", "scores"
		}
		switch command {
		case "PEXPIRE":
			ended[key] = true
			delete(behind, key)
		case "HSET", "HINCRBY", "ZADD", "ZINCRBY", "RPUSH", "LPUSH", "SADD", "INCR", "INCRBY", "DECR", "DECRBY":
			if ended[key] {
				behind[key] = command
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(behind)) {
		faults = append(faults, fmt.Sprintf("%s of %s comes behind its PEXPIRE, which on some servers deletes it when its time is over by then; the expiry comes last", behind[key], key))
	}
	return faults
}

func compareArguments(array string, declared, used arguments) []string {
	var faults []string
	for _, n := range slices.Sorted(maps.Keys(used.fixed)) {
		if !declared.fixed[n] && (declared.from == 0 || n < declared.from) {
			faults = append(faults, fmt.Sprintf("body uses %s[%d], header does not declare it", array, n))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(declared.fixed)) {
		if !used.fixed[n] {
			faults = append(faults, fmt.Sprintf("header declares %s[%d], body does not use it", array, n))
		}
	}
	switch {
	case used.computed && !declared.computed:
		faults = append(faults, fmt.Sprintf("body computes an index of %s or passes it on whole, header declares no %s[n...]", array, array))
	case declared.computed && !used.computed:
		faults = append(faults, fmt.Sprintf("header declares %s of variable number, body uses them only by number", array))
	}
	return faults
}

// splitHeader returns the comment lines that text begins with, at least one
// line, and the code after them without comments and without what is in quotes.
func splitHeader(text string) (header []string, code string) {
	lines := strings.Split(text, "\n")
	n := 1
	for n < len(lines) && strings.HasPrefix(lines[n], "--") {
		n++
	}
	return lines[:n], notCode.ReplaceAllString(strings.Join(lines[n:], "\n"), " ")
}

func declaredArguments(header []string) map[string]arguments {
	declared := newArguments()
	for _, line := range header {
		match := declaration.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		args := declared[match[1]]
		switch index := match[2]; {
		case fixedIndex.MatchString(index):
			args.fixed[number(index)] = true
		case openRange.MatchString(index):
			args.from, args.computed = number(openRange.FindStringSubmatch(index)[1]), true
		default:
			args.computed = true
		}
		declared[match[1]] = args
	}
	return declared
}

func usedArguments(code string) map[string]arguments {
	used := newArguments()
	for _, match := range argument.FindAllStringSubmatch(code, -1) {
		length, array, index, computed := match[1], match[2], match[3], match[4]
		args := used[array]
		switch {
		case index != "":
			args.fixed[number(index)] = true
		case computed != "" || length == "": // KEYS[i], or all of them: unpack(KEYS)
			args.computed = true
		}
		used[array] = args
	}
	return used
}

func newArguments() map[string]arguments {
	return map[string]arguments{"KEYS": {fixed: map[int]bool{}}, "ARGV": {fixed: map[int]bool{}}}
}

// number returns what s, a run of digits, stands for.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

func TestContractFaultsAreSeen(t *testing.T) {
	const good = `-- box/open: take what is in the box.
-- It says "bit.band" and KEYS[7] only in passing.
--
-- Cost: O(n) for n things, about 1 ms
-- for 1,000.
--
-- KEYS[1]     the box
-- KEYS[2...]  the things
-- ARGV[1]     who, in text such as "ARGV[9]"
--
-- Returns {1}  always
local box, who = KEYS[1], ARGV[1] -- not ARGV[2]
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], who .. 'ARGV[3] struct.pack')
end
return {1}
`
	tests := []struct {
		rule, old, new, want string
	}{
		{"good", "", "", ""},
		{"shebang", "-- box/open:", "#!lua\n-- box/open:", "shebang"},
		{"other name", "box/open:", "box/close:", "first line"},
		{"says nothing", "box/open: take what is in the box.", "box/open:", "first line"},
		{"no Returns", "-- Returns {1}", "-- Gives {1}", "Returns"},
		{"no KEYS", "-- KEYS", "-- keys", "declares no KEYS"},
		{"key not declared", "-- KEYS[1] ", "-- keys[1] ", "body uses KEYS[1]"},
		{"argument not declared", ", ARGV[1] --", ", ARGV[1], ARGV[2] --", "body uses ARGV[2]"},
		{"argument not used", "-- Returns", "-- ARGV[2]  how\n-- Returns", "body does not use it"},
		{"range not declared", "KEYS[2...]", "KEYS[2]", "header declares no KEYS[n...]"},
		{"range not used", "KEYS[i]", "KEYS[2]", "of variable number"},
		{"passed on whole", "return {1}\n", "return {unpack(ARGV)}\n", "header declares no ARGV[n...]"},
		{"bit", "return {1}\n", "return {bit.band(1, 1)}\n", "bit."},
		{"struct", "return {1}\n", "return struct.pack('b', 1)\n", "struct."},
		{"error's text", "return {1}\n", "return {string.find(who.err, 'x', 1, true)}\n", "text of an error"},
		{"error's text by a method", "return {1}\n", "return {who.err:sub(1, 2)}\n", "text of an error"},
		{"error's text compared", "return {1}\n", "return {who.err == 'x'}\n", "text of an error"},
		{"behind an expiry", "return {1}\n", "redis.call('PEXPIRE', box, 1)\nredis.call('HSET', box, 'a', 'b')\nreturn {1}\n", "HSET of box comes behind its PEXPIRE"},
		{"the expiry last", "return {1}\n", "redis.pcall('HSET', box, 'a', 'b')\nredis.pcall('PEXPIRE', box, 1)\nreturn {1}\n", ""},
		{"cmsgpack", "return {1}\n", "return cmsgpack.pack({})\n", "cmsgpack."},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			faults := contractFaults("box/open.lua", strings.ReplaceAll(good, tt.old, tt.new))
			if tt.rule == "good" {
				faults = contractFaults("box/open.lua", good)
			}
			if got := strings.Join(faults, "\n"); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("faults: got %q, want one with %q", got, tt.want)
			}
		})
	}
}

func TestCostFaultsAreSeen(t *testing.T) {
	const grows = "whose work grows"
	tests := []struct{ cost, body, want string }{
		{"", "redis.call('GET', box)", ""},
		{"", "redis.call('HGETALL', box)", grows},
		{"", "redis.call('LRANGE', box, 0, -1)", grows},
		{"", "redis.call('ZRANGE', box, 0, most)", grows},
		{"", "redis.call('ZRANGE', box, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)", grows},
		{"", "redis.call('LRANGE', box, '0', 2)", ""},
		{"", "first = redis.call('ZRANGE', box, 0, 0, 'WITHSCORES') -- not HGETALL, nor for i = 1, n", ""},
		{"", "for i = 1, n do f(i) end", grows},
		{"", "while x do x = f(x) end", grows},
		{"", "for i = 1, 4 do f(i) end", ""},
		{"", "for _, m in ipairs(linger > 0 and {'1', '0'} or {'0'}) do f(m) end", ""},
		{"", "redis.call('ZREM', box, unpack(ARGV, 3))", grows},
		{"", "local a = look(prefix)", grows},
		{"-- Cost: O(n) for n things,\n-- about 2 ms for 1,000.\n--", "redis.call('HGETALL', box)", ""},
		{"-- Cost: O(n) for n things\n--\n-- 2 ms", "redis.call('HGETALL', box)", "about 2 ms for 1,000"},
		{"-- Cost: much, for 3 ms", "", "about 2 ms for 1,000"},
	}
	for _, tt := range tests {
		got := strings.Join(costFaults(strings.Split("-- box/open: x\n--\n"+tt.cost, "\n"), tt.body), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%q, %q: got %q, want one with %q", tt.cost, tt.body, got, tt.want)
		}
	}
}
