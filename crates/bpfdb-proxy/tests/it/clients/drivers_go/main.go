// What drivers of Go do with PostgreSQL, through the proxy or without it: run DRIVER PORT USER NAME [PASSWORD]. NAME is a
// part of the names of tables. It ends with a line "DRIVER ok", or fails.
package main

import (
	"context"
	"fmt"
	"log"
	neturl "net/url"
	"os"
	"sync"
	"time"
)

const (
	rounds   = 30
	workers  = 8
	patience = time.Minute
)

var url, table string

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func same[T comparable](found, wanted T) {
	if found != wanted {
		log.Output(2, fmt.Sprintf("%v instead of %v", found, wanted))
		os.Exit(1)
	}
}

func together(work func(worker int)) {
	var all sync.WaitGroup
	for worker := range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			work(worker)
		}()
	}
	all.Wait()
}

func main() {
	log.SetFlags(log.Lshortfile)
	driver, port, user, name := os.Args[1], os.Args[2], neturl.User(os.Args[3]), os.Args[4]
	if len(os.Args) > 5 {
		user = neturl.UserPassword(os.Args[3], os.Args[5])
	}
	url = fmt.Sprintf("postgres://%s@127.0.0.1:%s/postgres?sslmode=disable", user, port)
	table = "drivers_" + driver + "_" + name
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	map[string]func(context.Context){"pgx": ofPgx, "pq": ofPq}[driver](ctx)
	fmt.Println(driver, "ok")
}
