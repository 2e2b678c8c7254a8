package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/connect"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/exit"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/runner"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
	"github.com/latchkey-go/latchkey/internal/object"
)

const runHelp = `run takes the lock NAME, runs CMD, and gives the lock back when CMD has ended.
Without -n or -w it waits for the lock as long as that takes. All who use a name
must agree on what it is: a lock, a fair lock (--fair), a read-write lock (-s and
-x) or a number of permits (--permits).

The lock is renewed while CMD runs. When it is lost all the same (Redis is out of
reach for a lease, somebody forced it open), CMD is stopped: TERM to its process
group, and KILL after --kill-after.

INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to the process group of CMD;
while run still waits for the lock, the first four end it, and the last two do
nothing. The lock is given back when all of the group has ended, so a process
that CMD leaves behind keeps it, unless it moves to a session of its own. On
Linux CMD is killed when run is, but not what CMD has started. Ctrl-Z stops CMD and
run together; what is not resumed within the lease has lost the lock, and is stopped
when it is resumed.

With --once-per or --fire, NAME is a job, and CMD runs once for each scheduled time,
however many machines run this line and however far their clocks are apart: Redis
has a record of each run, which 'latchkey jobs' shows. If somebody else has run it,
or runs it, nothing is done and the exit status is 0, whatever became of it. With
--retries, run waits for the end of that run, and CMD is run again, here or there,
if it fails or its machine dies.

CMD gets standard input and the terminal, and in its environment
  LATCHKEY_NAME    the name of the lock
  LATCHKEY_HOLDER  the holder as Redis shows it
  LATCHKEY_TOKEN   the fencing token: each acquisition has a greater one than the
                   last, for what the lock protects to compare; 0 with -s, -x,
                   --fair, --permits, --once-per and --fire, which have none
  LATCHKEY_LEASE   the lease, in milliseconds
  LATCHKEY_OUTER   the holders of the runs that this one is part of
  LATCHKEY_FIRE    with --once-per and --fire, the time for which CMD runs
but not REDISCLI_AUTH; and if REDIS_URL has a user or a password, CMD gets it
without them. Hand over what CMD needs of them under another name.

Exit status: that of CMD, 128+n if signal n ended it, or
  75   somebody else has the lock, or a run that this one is part of, which would
       be waited for for ever; or --not-later-than is over (-E chooses another
       number)
  76   the lock was lost, whatever CMD returned
  124  --hold-at-most was over and CMD was stopped
  126  CMD cannot be executed
  127  CMD was not found
  64   the command line makes no sense
  69   Redis cannot be reached, or refuses
  128+n  signal n came while run waited for the lock`

const runExamples = `  latchkey run nightly -- ./backup.sh           wait for it
  latchkey run -n -E 0 every-minute ./job       somebody else runs it: fine
  latchkey run -w 30s --hold-at-most 1h deploy make deploy
  latchkey run --permits 3 download ./fetch.sh  three at a time, on all machines together
  latchkey run -s data ./report.sh              many may read,
  latchkey run -x data ./import.sh              one may write
  latchkey run --hold-at-least 50s -n -E 0 tick ./tick    once a minute, on many machines
  latchkey run --once-per 24h --retries 1 nightly ./report.sh    once a day, on many machines
  latchkey run -c 'cd /srv && ./migrate | tee log' migrate`

// runFlags are the flags of run.
type runFlags struct {
	lockFlags
	fireFlags
	holdMax, killAfter time.Duration
	shell              string
}

func newRun(conn *connection) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:                   "run [flags] NAME [--] CMD [ARG...]",
		Short:                 "Run a command while holding a lock",
		Long:                  runHelp,
		Example:               runExamples,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := f.job(args, cmd.Flags().ArgsLenAtDash())
			if err != nil {
				return err
			}
			return j.run(conn)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return conn.completeName(cmd, args, begun)
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *runFlags) register(fs *pflag.FlagSet) {
	fs.SetInterspersed(false) // arguments after NAME belong to CMD
	fs.SortFlags = false
	f.lockFlags.register(fs, "user@host CMD, without arguments")
	fs.IntVarP(&f.conflict, "conflict-exit-code", "E", exit.Conflict, "exit `code` when the lock was not to be had; with 0 nothing is said")
	terminal.DurationVar(fs, &f.lease, "lease", "", 30*time.Second, "the lease, renewed every third of it: how long the lock stays closed after\na crash, and for how long Redis may be out of reach; at least 100ms")
	terminal.DurationVar(fs, &f.holdMin, "hold-at-least", "", 0, "keep the lock closed for so long, however soon CMD ends; run does not wait for that")
	terminal.DurationVar(fs, &f.holdMax, "hold-at-most", "", 0, "stop CMD when it has run for so long")
	terminal.DurationVar(fs, &f.killAfter, "kill-after", "", 5*time.Second, "what comes between TERM and KILL when CMD is stopped")
	f.fireFlags.register(fs)
	fs.StringVarP(&f.shell, "shell", "c", "", "give `STRING` to a shell instead of CMD")
}

// A job is the task of run.
type job struct {
	want
	fireFlags
	holdMax, killAfter time.Duration
	argv               []string
	path               string // of argv[0]
}

// job checks the command line. dash is the number of arguments before a "--".
func (f *runFlags) job(args []string, dash int) (*job, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if err := f.fireFlags.check(f.flags); err != nil {
		return nil, err
	}
	if len(args) == 0 || args[0] == "" {
		return nil, exit.Usagef("run: the NAME of the lock is missing")
	}
	if err := mayBe(args[0]); err != nil {
		return nil, err
	}
	j := &job{want: want{lockFlags: f.lockFlags, name: args[0], once: !f.at.IsZero()}, fireFlags: f.fireFlags, holdMax: f.holdMax, killAfter: f.killAfter, argv: args[1:]}
	dashed := dash == 0
	if len(j.argv) > 0 && j.argv[0] == "--" {
		j.argv, dashed = j.argv[1:], true
	}
	switch {
	case f.shell != "" && len(j.argv) > 0:
		return nil, exit.Usagef("run: there is a CMD besides -c")
	case f.shell != "":
		j.argv = runner.ShellCommand(f.shell)
	case len(j.argv) == 0 || j.argv[0] == "":
		return nil, exit.Usagef("run: the CMD is missing")
	case j.argv[0][0] == '-' && !dashed:
		return nil, exit.Usagef("run: %s stands where CMD is expected; flags come before NAME", j.argv[0])
	}
	j.labelFor(j.argv[0])
	return j, nil
}

func (f *runFlags) check() error {
	if err := f.lockFlags.check("run"); err != nil {
		return err
	}
	switch {
	case f.conflict < 0 || f.conflict > 255:
		return exit.Usagef("run: an exit code is between 0 and 255, so -E cannot be %d", f.conflict)
	case f.holdMin > object.MaxTime || f.holdMax > object.MaxTime:
		return exit.Usagef("run: the most that a lock can be held is %v", object.MaxTime)
	case f.holdMax > 0 && f.holdMin > f.holdMax:
		return exit.Usagef("run: --hold-at-least %v is longer than --hold-at-most %v", f.holdMin, f.holdMax)
	}
	return nil
}

// run carries out the job. Everything that can fail without the lock is done
// before it is taken.
func (j *job) run(conn *connection) (err error) {
	if j.path, err = lookPath(j.argv[0]); err != nil {
		return err
	}
	rdb, addr, err := conn.Open()
	if err != nil {
		return err
	}
	defer rdb.Close()
	signals := runner.CatchSignals()
	opts := []latchkey.Option{latchkey.WithWatchdogTimeout(j.lease)}
	if j.conflict != 0 { // else a refusal says nothing
		opts = append(opts, latchkey.WithTakenDetails())
	}
	waiting := &waitingLine{what: j.what()}
	client := latchkey.New(rdb, append(opts, waiting.options()...)...)
	lingers := false
	defer func() {
		if !lingers {
			_ = client.Close() // nothing is held any more
		}
	}()

	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	conn.OnRefusal(func(err error) {
		stop(connect.Unavailable(addr, err))
		_ = rdb.Close() // no further request or clean-up
	})
	p := &place{client: client, addr: addr, signals: signals, waiting: waiting, stop: stop}
	if j.once {
		return j.forFire(ctx, p)
	}
	lingers, err = j.underLock(ctx, p)
	return err
}

// A place is where a job is carried out.
type place struct {
	client  *latchkey.Client
	addr    string
	signals chan os.Signal
	waiting *waitingLine
	stop    context.CancelCauseFunc // ends the context of the job while it waits
}

// untilCalled passes signals that end a wait to stop, until done is called.
func (p *place) untilCalled() (done func()) {
	idle, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(idle)
		for {
			select {
			case sig := <-p.signals:
				if runner.EndsWait(sig) {
					p.stop(runner.EndedBy(sig))
					return
				}
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-idle
	}
}

// underLock runs CMD under the lock. lingers is that of release.
func (j *job) underLock(ctx context.Context, p *place) (lingers bool, err error) {
	g, err := j.acquire(ctx, p)
	p.waiting.clear()
	if err != nil {
		return false, err
	}
	_, err = j.hold(g, p.signals)
	runner.IgnoreSignals()
	// CMD has ended, whatever became of it, so the lock can be released.
	lingers, uerr := g.release(context.Background())
	switch {
	case errors.Is(uerr, latchkey.ErrLeaseLost):
		return lingers, j.lost(err)
	case uerr != nil:
		// CMD has done its work: its exit code stands.
		warn("%q could not be given back, and ends with its lease: %v", j.name, connect.Unavailable(p.addr, uerr))
	}
	return lingers, err
}

// lost is the error of a job that has lost its lock. err is how CMD ended.
func (j *job) lost(err error) error {
	var e *exit.Error
	if errors.As(err, &e) && e.Code == exit.Lost {
		return err
	}
	code := 0
	if e != nil {
		code = e.Code
	}
	return exit.Errorf(exit.Lost, "lost %s while %s ran, which has ended with %d", j.what(), j.argv[0], code)
}

// acquire takes the lock, or returns why it cannot.
func (j *job) acquire(ctx context.Context, p *place) (grip, error) {
	done := p.untilCalled()
	g, err := j.take(ctx, p.client, p.addr)
	done()
	// The grant came at the same moment as the signal: CMD is not started.
	if cause := context.Cause(ctx); cause != nil {
		if g != nil {
			_, _ = g.release(context.Background()) // otherwise its lease ends it
		}
		return nil, cause
	}
	return g, err
}

// hold runs CMD under the lock and returns when CMD has ended.
func (j *job) hold(g grip, signals chan os.Signal) (runner.End, error) {
	cmd := &runner.Command{
		Path: j.path, Argv: j.argv, Env: j.environment(g), Name: j.name, AtMost: j.holdMax, KillAfter: j.killAfter, Warn: warn,
	}
	end, err := cmd.Run(g, signals)
	switch {
	case err != nil:
		err = cannotRun(j.argv[0], err)
	case end.Why == runner.TooLate:
		err = exit.Errorf(exit.Lost, "lost %s before %s was started", j.what(), j.argv[0])
	case end.Why == runner.Lost:
		err = exit.Errorf(exit.Lost, "lost %s; %s was stopped", j.what(), j.argv[0])
	case end.Why == runner.AtMost:
		err = exit.Errorf(exit.Timeout, "%s was stopped: it had held %q for %v", j.argv[0], j.name, j.holdMax)
	case end.Code != 0:
		err = &exit.Error{Code: end.Code}
	}
	return end, err
}

// environment returns the environment of CMD.
func (j *job) environment(g grip) []string {
	var env []string
	for _, e := range connect.WithoutPasswords(os.Environ()) {
		if !strings.HasPrefix(e, "LATCHKEY_") {
			env = append(env, e)
		}
	}
	if j.once {
		env = append(env, "LATCHKEY_FIRE="+j.fireText())
	}
	return append(env,
		"LATCHKEY_NAME="+j.name,
		envHolder+"="+g.holder(),
		envOuter+"="+strings.Join(outerHolders(), " "),
		"LATCHKEY_TOKEN="+strconv.FormatInt(g.token(), 10),
		"LATCHKEY_LEASE="+strconv.FormatInt(j.lease.Milliseconds(), 10))
}

// lookPath finds the executable of CMD.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // the PATH includes the current directory
		return path, nil
	case filepath.Base(name) == name && inPath(name):
		err = fs.ErrPermission // as shells report it
	}
	return "", cannotRun(name, err)
}

// inPath reports whether the PATH has a file with that name that is not
// executable.
func inPath(name string) bool {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

func cannotRun(name string, err error) error {
	code := exit.CannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exit.NotFound
	}
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return exit.Errorf(code, "cannot run %s: %v", name, err)
}
