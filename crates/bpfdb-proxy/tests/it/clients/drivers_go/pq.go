// What lib/pq does.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/lib/pq"
)

// A query takes less than that if it is cancelled.
const atOnce = 10 * time.Second

// The error has this SQLSTATE.
func pqFails(err error, state string) {
	var told *pq.Error
	if !errors.As(err, &told) || string(told.Code) != state {
		log.Output(2, fmt.Sprintf("%v instead of %s", err, state))
		os.Exit(1)
	}
}

type queries interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func pqOne[T any](ctx context.Context, on queries, query string, arguments ...any) T {
	var value T
	check(on.QueryRowContext(ctx, query, arguments...).Scan(&value))
	return value
}

func pqDo(ctx context.Context, on queries, query string, arguments ...any) {
	_, err := on.ExecContext(ctx, query, arguments...)
	check(err)
}

// Of simple queries, of the unnamed statement in two batches (in one with binary parameters), and of named ones.
func pqStatements(ctx context.Context, db *sql.DB) {
	together(func(worker int) {
		for number := range rounds {
			same(pqOne[int](ctx, db, "select $1::int + 1", number), number+1)
			text := fmt.Sprintf("%d-%d 'quoted' \\ \u00e4", worker, number)
			same(pqOne[string](ctx, db, "select $1::text", text), text)
			same(pqOne[string](ctx, db, "select convert_from($1::bytea, 'utf8')", []byte(text)), text)
			same(pqOne[int](ctx, db, "select 7"), 7)
		}
	})
	doubled, err := db.PrepareContext(ctx, "select $1::int * 2")
	check(err)
	together(func(int) {
		for number := range rounds {
			var value int
			check(doubled.QueryRowContext(ctx, number).Scan(&value))
			same(value, 2*number)
		}
	})
	check(doubled.Close())
	_, err = db.ExecContext(ctx, "select * from there_is_none")
	pqFails(err, "42P01")
	_, err = db.ExecContext(ctx, "select 1 / $1::int", 0)
	pqFails(err, "22012")
	_, err = db.PrepareContext(ctx, "select nothing from nowhere")
	pqFails(err, "42P01")
	rows, err := db.QueryContext(ctx, "select n from generate_series(1, $1::int) n", 10_000)
	check(err)
	count := 0
	for rows.Next() {
		count++
	}
	check(rows.Err())
	same(count, 10_000)
}

func pqTransactions(ctx context.Context, db *sql.DB) {
	pqDo(ctx, db, "drop table if exists "+table)
	pqDo(ctx, db, "create table "+table+" (a int primary key, b text)")
	insert := "insert into " + table + " values ($1, $2)"
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	statement, err := tx.PrepareContext(ctx, insert)
	check(err)
	_, err = statement.ExecContext(ctx, 1, "one")
	check(err)
	pqDo(ctx, tx, "savepoint here")
	_, err = statement.ExecContext(ctx, 1, "again")
	pqFails(err, "23505")
	pqDo(ctx, tx, "rollback to savepoint here")
	_, err = statement.ExecContext(ctx, 2, "two")
	check(err)
	check(statement.Close())
	check(tx.Commit())
	tx, err = db.BeginTx(ctx, nil)
	check(err)
	pqDo(ctx, tx, "delete from "+table)
	check(tx.Rollback())
	same(pqOne[int](ctx, db, "select count(*) from "+table), 2)
	tx, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
	check(err)
	same(pqOne[string](ctx, tx, "show transaction_isolation"), "serializable")
	_, err = tx.ExecContext(ctx, "delete from "+table)
	pqFails(err, "25006")
	check(tx.Rollback())
	same(pqOne[string](ctx, db, "show transaction_isolation"), "read committed")
	pqDo(ctx, db, insert, 0, "0")
	together(func(int) {
		for range rounds {
			tx, err := db.BeginTx(ctx, nil)
			check(err)
			seen := pqOne[int](ctx, tx, "select b::int from "+table+" where a = 0 for update")
			pqDo(ctx, tx, "update "+table+" set b = $1 where a = 0", fmt.Sprint(seen+1))
			check(tx.Commit())
		}
	})
	same(pqOne[string](ctx, db, "select b from "+table+" where a = 0"), fmt.Sprint(workers*rounds))
}

func pqCopies(ctx context.Context, db *sql.DB) {
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	statement, err := tx.PrepareContext(ctx, pq.CopyIn(table, "a", "b"))
	check(err)
	for number := range 2000 {
		_, err = statement.ExecContext(ctx, 1000+number, strings.Repeat("x", 100))
		check(err)
	}
	_, err = statement.ExecContext(ctx)
	check(err)
	check(statement.Close())
	check(tx.Commit())
	same(pqOne[int](ctx, db, "select count(*) from "+table+" where a >= 1000"), 2000)
	tx, err = db.BeginTx(ctx, nil)
	check(err)
	statement, err = tx.PrepareContext(ctx, pq.CopyIn(table, "a", "b"))
	check(err)
	_, err = statement.ExecContext(ctx, "no number", "x")
	check(err)
	_, err = statement.ExecContext(ctx)
	pqFails(err, "22P02")
	_ = statement.Close()
	_ = tx.Rollback()
	same(pqOne[int](ctx, db, "select count(*) from "+table), 2003)
}

// A query whose time is over, alone and within a transaction.
func pqCancels(ctx context.Context, db *sql.DB) {
	sleep := func(on queries) {
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		begun := time.Now()
		_, err := on.ExecContext(short, "select pg_sleep(60)")
		same(err != nil, true)
		same(time.Since(begun) < atOnce, true)
	}
	sleep(db)
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	sleep(tx)
	_ = tx.Rollback()
	same(pqOne[int](ctx, db, "select 1"), 1)
}

func pqNews(ctx context.Context, db *sql.DB) {
	channel := table + "_news"
	listener := pq.NewListener(url, time.Second, time.Second, nil)
	check(listener.Listen(channel))
	for number := range 3 {
		pqDo(ctx, db, "select pg_notify($1, $2)", channel, fmt.Sprint(number))
		select {
		case heard := <-listener.Notify:
			same(heard.Extra, fmt.Sprint(number))
		case <-time.After(atOnce):
			check(errors.New("nothing is heard"))
		}
		check(listener.Ping())
	}
	check(listener.Unlisten(channel))
	check(listener.Close())
}

func ofPq(ctx context.Context) {
	for _, binary := range []string{"no", "yes"} {
		db, err := sql.Open("postgres", url+"&binary_parameters="+binary)
		check(err)
		db.SetMaxOpenConns(4)
		pqStatements(ctx, db)
		pqTransactions(ctx, db)
		pqCopies(ctx, db)
		pqCancels(ctx, db)
		pqNews(ctx, db)
		pqDo(ctx, db, "drop table "+table)
		check(db.Close())
	}
}
