// What pgx does.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// The error has this SQLSTATE.
func fails(err error, state string) {
	var told *pgconn.PgError
	if !errors.As(err, &told) || told.Code != state {
		log.Output(2, fmt.Sprintf("%v instead of %s", err, state))
		os.Exit(1)
	}
}

func connect(ctx context.Context, mode pgx.QueryExecMode) *pgx.Conn {
	config, err := pgx.ParseConfig(url)
	check(err)
	config.DefaultQueryExecMode = mode
	conn, err := pgx.ConnectConfig(ctx, config)
	check(err)
	return conn
}

func one[T any](ctx context.Context, conn interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, query string, arguments ...any) T {
	var value T
	check(conn.QueryRow(ctx, query, arguments...).Scan(&value))
	return value
}

// The same statements by simple queries, extended ones of one use, and prepared ones.
func statements(ctx context.Context) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeSimpleProtocol,
		pgx.QueryExecModeExec,
		pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeCacheStatement,
	} {
		conn := connect(ctx, mode)
		for number := range rounds {
			same(one[int](ctx, conn, "select $1::int + 1", number), number+1)
			text := fmt.Sprintf("%d 'quoted' \\ \u00e4", number)
			same(one[string](ctx, conn, "select $1::text", text), text)
		}
		_, err := conn.Exec(ctx, "select * from there_is_none")
		fails(err, "42P01")
		_, err = conn.Exec(ctx, "select 1 / $1::int", 0)
		fails(err, "22012")
		rows, err := conn.Query(ctx, "select n from generate_series(1, $1::int) n", 10_000)
		check(err)
		numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
		check(err)
		same(len(numbers), 10_000)
		check(conn.Close(ctx))
	}
}

func named(ctx context.Context, conn *pgx.Conn) {
	_, err := conn.Prepare(ctx, "doubled", "select $1::int * 2")
	check(err)
	for number := range rounds {
		same(one[int](ctx, conn, "doubled", number), 2*number)
		tx, err := conn.Begin(ctx)
		check(err)
		same(one[int](ctx, tx, "doubled", number), 2*number)
		check(tx.Commit(ctx))
	}
	check(conn.Deallocate(ctx, "doubled"))
	_, err = conn.Prepare(ctx, "broken", "select nothing from nowhere")
	fails(err, "42P01")
}

func transactions(ctx context.Context, conn *pgx.Conn) {
	_, err := conn.Exec(ctx, "drop table if exists "+table)
	check(err)
	_, err = conn.Exec(ctx, "create table "+table+" (a int primary key, b text)")
	check(err)
	insert := "insert into " + table + " values ($1, $2)"
	check(pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert, 1, "one")
		check(err)
		// A savepoint.
		inner, err := tx.Begin(ctx)
		check(err)
		_, err = inner.Exec(ctx, insert, 1, "again")
		fails(err, "23505")
		check(inner.Rollback(ctx))
		_, err = tx.Exec(ctx, insert, 2, "two")
		return err
	}))
	undone := errors.New("undone")
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "delete from "+table)
		check(err)
		return undone
	})
	same(err, undone)
	same(one[int](ctx, conn, "select count(*) from "+table), 2)
	serializable := pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, serializable, func(tx pgx.Tx) error {
		same(one[string](ctx, tx, "show transaction_isolation"), "serializable")
		_, err := tx.Exec(ctx, "delete from "+table)
		fails(err, "25006")
		return nil
	})
	// Its COMMIT is a ROLLBACK.
	same(errors.Is(err, pgx.ErrTxCommitRollback), true)
	same(one[string](ctx, conn, "show transaction_isolation"), "read committed")
}

// Several statements of one round trip, and one among them that fails.
func batches(ctx context.Context, conn *pgx.Conn) {
	batch := &pgx.Batch{}
	for number := range rounds {
		batch.Queue("insert into "+table+" values ($1, $2)", 100+number, fmt.Sprint(number))
		batch.Queue("select count(*) from " + table).QueryRow(func(row pgx.Row) error {
			var count int
			check(row.Scan(&count))
			same(count, 3+number)
			return nil
		})
	}
	check(conn.SendBatch(ctx, batch).Close())
	batch = &pgx.Batch{}
	batch.Queue("insert into " + table + " values (999, 'lost')")
	batch.Queue("select 1 / $1::int", 0)
	batch.Queue("select 1")
	fails(conn.SendBatch(ctx, batch).Close(), "22012")
	same(one[int](ctx, conn, "select count(*) from "+table), 2+rounds)
}

// Requests of several transactions before the first reply.
func pipelines(ctx context.Context, conn *pgconn.PgConn) {
	pipeline := conn.StartPipeline(ctx)
	pipeline.SendPrepare("tripled", "select $1::int * 3", nil)
	check(pipeline.Sync())
	for number := range rounds {
		pipeline.SendQueryPrepared("tripled", [][]byte{[]byte(fmt.Sprint(number))}, nil, nil)
		pipeline.SendQueryParams("select 1 / $1::int", [][]byte{[]byte(fmt.Sprint(number % 2))}, nil, nil, nil)
		check(pipeline.Sync())
	}
	_, err := pipeline.GetResults() // of the Prepare
	check(err)
	_, err = pipeline.GetResults() // of its Sync
	check(err)
	for number := range rounds {
		same(string(read(pipeline)[0][0]), fmt.Sprint(3*number))
		results, err := pipeline.GetResults()
		if reader, is := results.(*pgconn.ResultReader); is {
			err = reader.Read().Err
		}
		if number%2 == 0 {
			fails(err, "22012")
		} else {
			check(err)
		}
		_, err = pipeline.GetResults()
		check(err)
	}
	check(pipeline.Close())
}

func read(pipeline *pgconn.Pipeline) [][][]byte {
	results, err := pipeline.GetResults()
	check(err)
	result := results.(*pgconn.ResultReader).Read()
	check(result.Err)
	return result.Rows
}

func copies(ctx context.Context, conn *pgx.Conn) {
	rows := pgx.CopyFromSlice(2000, func(i int) ([]any, error) {
		return []any{1000 + i, strings.Repeat("x", 100)}, nil
	})
	count, err := conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"a", "b"}, rows)
	check(err)
	same(count, 2000)
	var out bytes.Buffer
	_, err = conn.PgConn().CopyTo(ctx, &out, "copy (select b from "+table+" where a >= 1000) to stdout")
	check(err)
	same(out.Len(), 2000*101)
	broken := strings.NewReader("no number\tx\n")
	_, err = conn.PgConn().CopyFrom(ctx, broken, "copy "+table+" from stdin")
	fails(err, "22P02")
	same(one[int](ctx, conn, "select count(*) from "+table), 2002+rounds)
}

// A query that is cancelled, and one whose time is over: pgx closes that connection.
func cancels(ctx context.Context, conn *pgx.Conn) {
	done := make(chan error)
	go func() {
		_, err := conn.Exec(ctx, "select pg_sleep(60)")
		done <- err
	}()
	for sleeps := true; sleeps; {
		check(conn.PgConn().CancelRequest(ctx))
		select {
		case err := <-done:
			fails(err, "57014")
			sleeps = false
		case <-time.After(100 * time.Millisecond):
		}
	}
	same(one[int](ctx, conn, "select 1"), 1)
	late := connect(ctx, pgx.QueryExecModeCacheStatement)
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	_, err := late.Exec(short, "select pg_sleep(60)")
	same(errors.Is(err, context.DeadlineExceeded), true)
	same(late.IsClosed(), true)
}

func news(ctx context.Context, conn *pgx.Conn) {
	channel := table + "_news"
	_, err := conn.Exec(ctx, "listen "+channel)
	check(err)
	other := connect(ctx, pgx.QueryExecModeCacheStatement)
	_, err = other.Exec(ctx, "select pg_notify($1, $2)", channel, "news")
	check(err)
	check(other.Close(ctx))
	heard, err := conn.WaitForNotification(ctx)
	check(err)
	same(heard.Payload, "news")
	_, err = conn.Exec(ctx, "unlisten *")
	check(err)
}

// More workers than connections, and more of these than the proxy has.
func pools(ctx context.Context) {
	config, err := pgxpool.ParseConfig(url)
	check(err)
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(ctx, config)
	check(err)
	defer pool.Close()
	_, err = pool.Exec(ctx, "delete from "+table)
	check(err)
	_, err = pool.Exec(ctx, "insert into "+table+" values (0, '0')")
	check(err)
	together(func(worker int) {
		for number := range rounds {
			text := fmt.Sprintf("%d-%d", worker, number)
			same(one[string](ctx, pool, "select $1::text", text), text)
			check(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				seen := one[int](ctx, tx, "select b::int from "+table+" where a = 0 for update")
				_, err := tx.Exec(ctx, "update "+table+" set b = $1 where a = 0", fmt.Sprint(seen+1))
				return err
			}))
		}
	})
	same(one[string](ctx, pool, "select b from "+table), fmt.Sprint(workers*rounds))
}

// By the package of the language.
func standard(ctx context.Context) {
	db, err := sql.Open("pgx", url)
	check(err)
	db.SetMaxOpenConns(3)
	statement, err := db.PrepareContext(ctx, "select $1::int * 5")
	check(err)
	together(func(int) {
		for number := range rounds {
			var value int
			check(statement.QueryRowContext(ctx, number).Scan(&value))
			same(value, 5*number)
		}
	})
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	check(err)
	var level string
	check(tx.QueryRowContext(ctx, "show transaction_isolation").Scan(&level))
	same(level, "repeatable read")
	check(tx.Rollback())
	check(statement.Close())
	check(db.Close())
}

func ofPgx(ctx context.Context) {
	statements(ctx)
	conn := connect(ctx, pgx.QueryExecModeCacheStatement)
	named(ctx, conn)
	transactions(ctx, conn)
	batches(ctx, conn)
	pipelines(ctx, conn.PgConn())
	copies(ctx, conn)
	cancels(ctx, conn)
	pools(ctx)
	standard(ctx)
	_, err := conn.Exec(ctx, "drop table "+table)
	check(err)
	news(ctx, conn)
	check(conn.Close(ctx))
}
