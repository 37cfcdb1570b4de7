// Jobs of asynq against the server at the port given, in a database of their own: at once, later,
// only once, and one that fails until it is put aside.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const (
	jobs     = 50
	attempts = 3
	patience = time.Minute
)

var added, failed atomic.Int64

func add(_ context.Context, task *asynq.Task) error {
	added.Add(1)
	_, err := task.ResultWriter().Write([]byte("done"))
	return err
}

func fails(context.Context, *asynq.Task) error {
	failed.Add(1)
	return errors.New("as it shall")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Fails if it does not become true in time.
func await(what string, isTrue func() bool) {
	for start := time.Now(); !isTrue(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > patience {
			log.Fatalf("waiting until %s: %d added, %d failed", what, added.Load(), failed.Load())
		}
	}
}

func serve(redis asynq.RedisConnOpt) *asynq.Server {
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency:              4,
		Queues:                   map[string]int{"critical": 6, "default": 3},
		LogLevel:                 asynq.ErrorLevel,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration {
			return 50 * time.Millisecond
		},
	})
	handlers := asynq.NewServeMux()
	handlers.HandleFunc("add", add)
	handlers.HandleFunc("fails", fails)
	check(server.Start(handlers))
	return server
}

func enqueue(client *asynq.Client) {
	send := func(name, payload string, options ...asynq.Option) error {
		_, err := client.Enqueue(asynq.NewTask(name, []byte(payload)), options...)
		return err
	}
	for i := range jobs {
		check(send("add", fmt.Sprint(i), asynq.Queue("critical"), asynq.Retention(time.Hour)))
	}
	check(send("add", "later", asynq.ProcessIn(300*time.Millisecond)))
	once := []asynq.Option{asynq.Unique(time.Hour), asynq.ProcessIn(300 * time.Millisecond)}
	check(send("add", "once", once...))
	if err := send("add", "once", once...); !errors.Is(err, asynq.ErrDuplicateTask) {
		log.Fatalf("a second one: %v", err)
	}
	check(send("fails", "", asynq.MaxRetry(attempts-1)))
}

func inspect(inspector *asynq.Inspector) {
	await("all are completed", func() bool {
		queue, err := inspector.GetQueueInfo("critical")
		check(err)
		return queue.Completed == jobs
	})
	await("one is put aside", func() bool {
		archived, err := inspector.ListArchivedTasks("default")
		check(err)
		return len(archived) == 1
	})
	if n, err := inspector.DeleteAllCompletedTasks("critical"); err != nil || n != jobs {
		log.Fatalf("deleted %d: %v", n, err)
	}
	check(inspector.DeleteQueue("critical", true))
}

func main() {
	redis := asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Args[1], DB: 10}
	server := serve(redis)
	client := asynq.NewClient(redis)
	enqueue(client)
	await("all have run", func() bool {
		return added.Load() == jobs+2 && failed.Load() == attempts
	})
	inspector := asynq.NewInspector(redis)
	inspect(inspector)
	server.Shutdown()
	check(inspector.Close())
	check(client.Close())
}
