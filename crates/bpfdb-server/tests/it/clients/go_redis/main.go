// What a program does with go-redis and its default settings, against the
// server at the port given.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// Stops the program unless the two are the same.
func same[T comparable](got, want T) {
	if got != want {
		panic(fmt.Sprintf("got %v, want %v", got, want))
	}
}

// The result of a command that must not fail.
func result[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func values(client *redis.Client) {
	same(result(client.Ping(ctx).Result()), "PONG")
	same(result(client.Set(ctx, "go:a", 1, 0).Result()), "OK")
	same(result(client.Get(ctx, "go:a").Result()), "1")
	same(errors.Is(client.Get(ctx, "go:absent").Err(), redis.Nil), true)
	same(result(client.Incr(ctx, "go:a").Result()), 2)
	same(result(client.IncrBy(ctx, "go:a", 40).Result()), 42)
	same(result(client.Append(ctx, "go:b", strings.Repeat("x", 100)).Result()), 100)
	same(result(client.StrLen(ctx, "go:b").Result()), 100)
	same(result(client.MSet(ctx, "go:c", "c", "go:d", "").Result()), "OK")
	all := result(client.MGet(ctx, "go:c", "go:d", "go:e").Result())
	same(slices.Equal(all, []any{"c", "", nil}), true)
	same(result(client.SetNX(ctx, "go:a", 2, 0).Result()), false)
	same(result(client.SetXX(ctx, "go:a", 2, 0).Result()), true)
	same(result(client.GetSet(ctx, "go:a", 3).Result()), "2")
	same(result(client.Exists(ctx, "go:a", "go:a", "go:e").Result()), 2)
	same(result(client.Del(ctx, "go:a", "go:b", "go:c", "go:d").Result()), 4)

	long := bytes.Repeat([]byte("\x00\r\n\xff"), 12800)
	same(result(client.Set(ctx, "go:\x00long\r\n\xff", long, 0).Result()), "OK")
	back := result(client.Get(ctx, "go:\x00long\r\n\xff").Bytes())
	same(bytes.Equal(back, long), true)
}

func failures(client *redis.Client) {
	client.Set(ctx, "go:text", "no number", 0)
	for _, words := range [][]any{{"NONSENSE", "x"}, {"GET"}, {"INCR", "go:text"}} {
		err := client.Do(ctx, words...).Err()
		same(err != nil && strings.HasPrefix(err.Error(), "ERR"), true)
	}
}

func expiry(client *redis.Client) {
	same(result(client.Set(ctx, "go:short", 1, 50*time.Millisecond).Result()), "OK")
	same(result(client.SetEx(ctx, "go:long", 1, 1000*time.Second).Result()), "OK")
	left := result(client.TTL(ctx, "go:long").Result())
	same(left > 990*time.Second && left <= 1000*time.Second, true)
	same(result(client.Persist(ctx, "go:long").Result()), true)
	same(result(client.TTL(ctx, "go:long").Result()), -1)
	same(result(client.ExpireGT(ctx, "go:long", time.Hour).Result()), false)
	for end := time.Now().Add(60 * time.Second); client.Get(ctx, "go:short").Err() != redis.Nil; {
		same(time.Now().Before(end), true)
		time.Sleep(10 * time.Millisecond)
	}
}

func pipeline(client *redis.Client) {
	replies := result(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 1000 {
			pipe.Set(ctx, fmt.Sprint("go:pipe:", i), i, 0)
			pipe.Get(ctx, fmt.Sprint("go:pipe:", i))
		}
		return nil
	}))
	for i := range 1000 {
		same(replies[2*i+1].(*redis.StringCmd).Val(), fmt.Sprint(i))
	}
}

func scan(client *redis.Client) {
	found := map[string]bool{}
	keys := client.Scan(ctx, 0, "go:pipe:*", 100).Iterator()
	for keys.Next(ctx) {
		found[keys.Val()] = true
	}
	same(keys.Err(), nil)
	same(len(found), 1000)
}

func transaction(client *redis.Client) {
	replies := result(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "go:m", 1, 0)
		pipe.Incr(ctx, "go:m")
		return nil
	}))
	same(replies[1].(*redis.IntCmd).Val(), 2)

	client.Set(ctx, "go:w", 10, 0)
	double := func(disturb bool) error {
		return client.Watch(ctx, func(tx *redis.Tx) error {
			value := result(tx.Get(ctx, "go:w").Int())
			if disturb {
				client.Set(ctx, "go:w", 11, 0)
			}
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "go:w", 2*value, 0)
				return nil
			})
			return err
		}, "go:w")
	}
	same(errors.Is(double(true), redis.TxFailedErr), true)
	same(result(client.Get(ctx, "go:w").Result()), "11")
	same(double(false), nil)
	same(result(client.Get(ctx, "go:w").Result()), "22")
}

func reconnect(client *redis.Client) {
	one := redis.NewClient(&redis.Options{Addr: client.Options().Addr, PoolSize: 1})
	defer one.Close()
	before := result(one.ClientID(ctx).Result())
	same(result(client.ClientKillByFilter(ctx, "ID", fmt.Sprint(before)).Result()), 1)
	same(result(one.Get(ctx, "go:w").Result()), "22")
	same(result(one.ClientID(ctx).Result()) != before, true)
}

func main() {
	if os.Args[1] == "pipelines" {
		pipelines(os.Args[2], result(strconv.Atoi(os.Args[3])))
		return
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1]})
	defer client.Close()
	values(client)
	failures(client)
	expiry(client)
	pipeline(client)
	scan(client)
	transaction(client)
	reconnect(client)
	// The other protocol than the default.
	for _, protocol := range []int{2, 3} {
		other := redis.NewClient(&redis.Options{Addr: client.Options().Addr, Protocol: protocol})
		same(result(other.Get(ctx, "go:w").Result()), "22")
		other.Close()
	}
}
