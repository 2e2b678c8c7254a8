// Package direct sends a command on the goroutine of its caller, over a connection
// that nothing else uses, and reads the answer there.
//
// What go-redis does around a command (its pool, a look at the connection, hooks,
// notifications, a command to be filled in) costs about a sixth of a round trip on
// loopback, and a caller who can cancel costs a goroutine on top of that, since
// go-redis does not look at a context while it reads. Here such a caller reads for
// [Soon] at most, and has somebody else read on.
//
// Where answers come within 50 µs, a caller looks for his again and again at first
// instead of sleeping, if no other caller sleeps: on one machine a processor that has gone to sleep takes longer to
// be back than Redis takes for a command.
//
// A [Listener] reads what comes to a connection that subscribes, for the same reason.
//
// No command depends on it. A [Pool] has connections only while commands are frequent,
// and whoever gets none sends his command by go-redis, which also makes the
// connections: it knows how to reach the server, and who the user is.
package direct
