// Command latchkey runs commands under locks in Redis, and shows the library at
// work. `latchkey help` lists what it can do.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
)

func main() {
	logging.Disable() // what matters comes back as an error
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
	conn.register(root.PersistentFlags())
	// -h is the host, as it is redis-cli's; so help has no shorthand.
	root.PersistentFlags().Bool("help", false, "show the help of a command")
	root.AddCommand(newRun(conn), newDemo(conn), newVersion())
	return root
}

const environmentHelp = `
Environment:
  REDIS_URL       the same as --url, where neither --url nor -h nor -p is given
  REDISCLI_AUTH   the same as -a, where neither that nor the URL has a password
`
