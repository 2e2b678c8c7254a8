package nemesis

import (
	"strings"
	"time"

	"github.com/latchkey-go/latchkey/chaos/stage"
	"github.com/latchkey-go/latchkey/internal/redistest"
)

const ms = time.Millisecond

var (
	anywhere = stage.Topologies
	alone    = []string{stage.Single, stage.AOF}
)

// serverFaults are those of one server that stops, forgets, or is slow.
func serverFaults() []Fault {
	return []Fault{{
		Name: "kill-empty", What: "kill -9, and a restart without data",
		On: []string{stage.Single}, Loss: true, Span: 150 * ms,
		Do:   func(p *Play) { p.base = int64(p.Nodes[0].Pid()); p.Nodes[0].Kill() },
		Undo: func(p *Play) { p.Nodes[0].Restart(p.T); p.seen(int64(p.Nodes[0].Pid()) != p.base) },
	}, {
		Name: "kill-aof", What: "kill -9, and a restart with the append-only file",
		On: []string{stage.AOF}, Span: 150 * ms,
		Do:   func(p *Play) { p.base = int64(p.Nodes[0].Pid()); p.Nodes[0].Kill() },
		Undo: func(p *Play) { p.Nodes[0].Restart(p.T); p.seen(int64(p.Nodes[0].Pid()) != p.base) },
	}, {
		Name: "loading", What: "a restart in which the server answers LOADING for a second",
		On: []string{stage.AOF}, Span: 10 * ms,
		Do: func(p *Play) {
			p.On(0, "EVAL", "for i = 1, 4000 do redis.call('set', 'filler:' .. i, i, 'px', 60000) end", "0")
			p.On(0, "BGREWRITEAOF") // or it would load each command of the campaign so slowly
			redistest.Until(p.T, "the append-only file to be rewritten", func() bool {
				return p.Stat("persistence", "aof_rewrite_in_progress")+p.Stat("persistence", "aof_rewrite_scheduled") == 0
			})
			slow := []string{"--key-load-delay", "60"}
			if redistest.Since(7, 0) { // before, it answers after every two megabytes
				slow = append(slow, "--loading-process-events-interval-bytes", "1024")
			}
			p.Nodes[0].Restart(p.T, slow...)
			p.Proved(p.ErrorCount("LOADING"))
		},
		Undo: func(p *Play) {
			p.On(0, "CONFIG", "SET", "key-load-delay", "0")
			p.On(0, "EVAL", "for i = 1, 4000 do redis.call('del', 'filler:' .. i) end", "0")
		},
	}, {
		Name: "flushall", What: "FLUSHALL, three times", On: alone, Loss: true, Live: true, Span: 200 * ms,
		Do: func(p *Play) {
			p.every(90*ms, func() {
				p.Proved(int64(min(1, len(p.Keys()))))
				p.Stage.Do("FLUSHALL")
			})
		},
	}, {
		Name: "freeze-short", What: "SIGSTOP of the server for less than a lease", On: alone, Span: 600 * ms,
		Do:   func(p *Play) { p.Nodes[0].Freeze(); p.seen(p.Silent(0, false)) },
		Undo: func(p *Play) { p.Nodes[0].Thaw() },
	}, {
		Name: "freeze-long", What: "SIGSTOP of the server for longer than a lease", On: alone, Span: 2500 * ms,
		Do:   func(p *Play) { p.Nodes[0].Freeze(); p.seen(p.Silent(0, false)) },
		Undo: func(p *Play) { p.Nodes[0].Thaw() },
	}, {
		Name: "pause-write", What: "CLIENT PAUSE … WRITE", On: anywhere, Span: 400 * ms,
		Do: func(p *Play) {
			p.Stage.Do("CLIENT", "PAUSE", "400", "WRITE")
			p.pausedFor("SET", "latchkey:pause", "1", "PX", "1")
		},
	}, {
		Name: "pause-all", What: "CLIENT PAUSE … ALL", On: alone, Span: 400 * ms,
		Do: func(p *Play) { p.Stage.Do("CLIENT", "PAUSE", "400", "ALL"); p.pausedFor("PING") },
	}, {
		Name: "script-flush", What: "SCRIPT FLUSH, every 10 ms", On: anywhere, Live: true, Span: 300 * ms,
		Do: func(p *Play) {
			p.base = p.ErrorCount("NOSCRIPT")
			p.every(10*ms, func() { p.Stage.Do("SCRIPT", "FLUSH") })
		},
		Undo: func(p *Play) { p.Proved(p.ErrorCount("NOSCRIPT") - p.base) },
	}, {
		Name: "busy", What: "a script that runs for long: BUSY", On: alone, Span: 400 * ms,
		Do: func(p *Play) {
			p.base = p.ErrorCount("BUSY")
			p.Stage.Do("CONFIG", "SET", "lua-time-limit", "50")
			p.wg.Go(func() { p.Took(0, false, "EVAL", "while true do end", "0") })
			p.wg.Go(func() {
				<-p.stop
				p.Stage.Do("SCRIPT", "KILL")
			})
		},
		Undo: func(p *Play) { p.Proved(p.ErrorCount("BUSY") - p.base) },
	}}
}

// pausedFor proves a pause by a command that takes long.
func (p *Play) pausedFor(args ...string) {
	p.wg.Go(func() { p.seen(p.Took(p.Masters()[0], false, args...) > 100*ms) })
}

// refusalFaults are those of a server that says no.
func refusalFaults() []Fault {
	return []Fault{{
		Name: "oom", What: "maxmemory reached: OOM", On: alone, Span: 400 * ms,
		Do: func(p *Play) {
			p.base = p.refused("OOM")
			p.Stage.Do("CONFIG", "SET", "maxmemory", "100kb")
		},
		Undo: func(p *Play) {
			p.Stage.Do("CONFIG", "SET", "maxmemory", "0")
			p.Proved(p.refused("OOM") - p.base)
		},
	}, {
		Name: "readonly", What: "the server is made a replica for a while: READONLY", On: alone, Span: 400 * ms,
		Do: func(p *Play) {
			p.base = p.refused("READONLY")
			p.Stage.Do("REPLICAOF", "127.0.0.1", "1") // where nobody is
		},
		Undo: func(p *Play) {
			p.Stage.Do("REPLICAOF", "NO", "ONE")
			p.Proved(p.refused("READONLY") - p.base)
		},
	}, {
		Name: "acl-commands", What: "the right to the write commands is taken away, and given back", On: alone, Span: 400 * ms,
		Do: func(p *Play) {
			p.Stage.Do("ACL", "LOG", "RESET")
			rights := []string{"ACL", "SETUSER", "default", "-hincrby", "-hset", "-incrby", "-decrby", "-zadd", "-decr"}
			if p.Rand.IntN(2) == 0 { // without these, scripts stop before they have changed anything
				rights = append(rights, "-set", "-rpush")
			}
			p.Stage.Do(rights...)
		},
		Undo: func(p *Play) {
			p.Proved(int64(len(p.On(0, "ACL", "LOG"))))
			p.Stage.Do("ACL", "SETUSER", "default", "+@all")
		},
	}, {
		Name: "acl-channels", What: "the right to all Redis channels is taken away, and given back", On: alone, Live: true, Span: 600 * ms,
		Do: func(p *Play) {
			p.Stage.Do("ACL", "LOG", "RESET")
			p.Stage.Do("ACL", "SETUSER", "default", "resetchannels")
		},
		Undo: func(p *Play) {
			p.Proved(int64(len(p.On(0, "ACL", "LOG"))))
			p.Stage.Do("ACL", "SETUSER", "default", "allchannels")
		},
	}, {
		Name: "overflow", What: "the subscriber's output buffer overflows", On: alone, Live: true, Span: 400 * ms,
		Do: func(p *Play) {
			p.base = int64(strings.Count(p.Nodes[0].Log(), "output buffer limits"))
			p.Stage.Do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 64kb 32kb 1")
			p.every(80*ms, func() {
				channels := p.On(0, "PUBSUB", "CHANNELS")
				if len(channels) == 0 {
					return
				}
				p.On(0, "EVAL", "local m = string.rep('x', 16384) for i = 1, 300 do redis.call('publish', ARGV[1], m) end",
					"0", channels[p.Rand.IntN(len(channels))])
			})
		},
		Undo: func(p *Play) {
			p.Stage.Do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60")
			p.Proved(int64(strings.Count(p.Nodes[0].Log(), "output buffer limits")) - p.base)
		},
	}}
}

// refused returns how many commands the servers have refused with that code. Before 7.0
// those that a script has caught and returned are counted by other words.
func (p *Play) refused(code string) int64 { return p.ErrorCount(code) + p.ErrorCount("@user_script_") }
