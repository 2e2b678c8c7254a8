// Command latchkey runs commands under locks in Redis and shows how the library
// works. `latchkey help` lists its commands.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/bench"
	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/demo"
)

func main() {
	logging.Disable() // errors report what matters
	os.Exit(report(os.Stderr, newRoot().Execute()))
}

func newRoot() *cobra.Command {
	conn := new(connection)
	root := &cobra.Command{
		Use:   "latchkey",
		Short: "Locks for many machines, on Redis",
		Long: `latchkey runs commands under locks that many machines share through Redis, byte
for byte those of Java's Redisson.

Exit status, where a command does not say more: 0 done; 1 failed; 64 the command
line makes no sense; 69 Redis cannot be reached, or refuses.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetHelpTemplate(root.HelpTemplate() + "{{if not .HasParent}}" + environmentHelp + "{{end}}")
	conn.Register(root.PersistentFlags())
	// -h is the host, as in redis-cli, so help has no shorthand.
	root.PersistentFlags().Bool("help", false, "show the help of a command")
	run, acquire, jobs, events := newRun(conn), newAcquire(conn), newJobs(conn), newHistory(conn)
	root.AddCommand(run, acquire, newExtend(conn), newRelease(conn), newLs(conn), newTop(conn), newShow(conn), newWaiters(conn), newExplain(conn), events, jobs, newLeaders(conn), newForceUnlock(conn), newSem(conn), newLatch(conn),
		newServe(conn), newDoctor(conn), bench.Command(&conn.Flags), demo.Command(&conn.Flags), newVersion())
	for _, cmd := range leaves(root) {
		if cmd != run && cmd != acquire && cmd != jobs && cmd != events { // these have an -n of their own
			conn.DBShorthand(cmd)
		}
	}
	return root
}

// leaves returns the commands without subcommands.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.HasSubCommands() {
			all = append(all, leaves(c)...)
		} else {
			all = append(all, c)
		}
	}
	return all
}

const environmentHelp = `
Environment:
  REDIS_URL       the same as --url, where neither --url nor -h nor -p is given
  REDISCLI_AUTH   the same as -a, where neither that nor the URL has a password
`
