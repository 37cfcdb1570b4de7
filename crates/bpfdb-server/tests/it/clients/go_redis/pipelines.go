package main

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// pipelines sends count commands before it reads the first reply, to HOST:PORT or the path of
// a Unix-domain socket.
func pipelines(address string, count int) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	// The usual time-outs of 3 seconds are about the machine.
	client := redis.NewClient(&redis.Options{
		Network: network, Addr: address, ReadTimeout: -1, WriteTimeout: -1,
	})
	defer client.Close()
	// Long, so that few commands fill the buffers of sockets.
	name, value := strings.Repeat("k", 80), strings.Repeat("v", 250)
	key := func(i int) string { return fmt.Sprint("go:pipelines:", name, ":", i%1000) }
	result(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range count {
			pipe.Set(ctx, key(i), value, 0)
		}
		return nil
	}))
	replies := result(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range count {
			pipe.Get(ctx, key(i))
		}
		return nil
	}))
	for _, reply := range replies {
		same(reply.(*redis.StringCmd).Val(), value)
	}
	same(result(client.Ping(ctx).Result()), "PONG")
}
