// Fenced writes to PostgreSQL so that a process that has lost its lock, and does
// not know it yet, changes nothing.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/latchkey-go/latchkey"
	"github.com/latchkey-go/latchkey/rlock"
)

// The table has a column for the token of who wrote last:
//
//	CREATE TABLE accounts (
//		id      text PRIMARY KEY,
//		balance bigint NOT NULL,
//		fence   bigint NOT NULL DEFAULT 0
//	)
const setBalance = `UPDATE accounts SET balance = $2, fence = $3 WHERE id = $1 AND fence <= $3`

var errStale = errors.New("somebody with a later token has written")

// save writes with the token of the hold. The database compares and writes in
// one step.
func save(ctx context.Context, db execer, hold *latchkey.Hold, id string, balance int) error {
	res, err := db.ExecContext(ctx, setBalance, id, balance, hold.Token())
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errStale
}

// An execer is a *sql.DB or a *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func main() {
	ctx := context.Background()
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		log.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client := latchkey.New(rdb)
	defer client.Close()

	var db execer = new(table) // sql.Open("pgx", os.Getenv("DATABASE_URL"))
	lock := rlock.New(client, "account:42", rlock.Fenced())

	slow, err := lock.Lock(ctx, latchkey.Lease(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-slow.Lost() // as if this process had been paused until its lease was over

	next, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the next holder writes:", save(ctx, db, next, "42", 200))
	fmt.Println("the slow one writes:", save(ctx, db, slow, "42", 100))
	if err := next.Unlock(ctx); err != nil {
		log.Print(err)
	}
}

// A table stands in for PostgreSQL, and does what setBalance says.
type table struct {
	mu             sync.Mutex
	balance, fence int64
}

func (t *table) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	if query != setBalance {
		return nil, errors.New("no such statement")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	balance, fence := int64(args[1].(int)), args[2].(int64)
	if fence < t.fence {
		return driver.RowsAffected(0), nil
	}
	t.balance, t.fence = balance, fence
	return driver.RowsAffected(1), nil
}
