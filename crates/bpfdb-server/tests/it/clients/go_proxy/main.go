// A proxy as most are that are written in Go, docker-proxy among them: io.Copy from one
// connection to the other, which is splice(2) on Linux. It says at which port it listens, and
// connects to the address given.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func copyAll(to, from *net.TCPConn) {
	io.Copy(to, from)
	from.CloseRead()
	to.CloseWrite()
}

func main() {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		client, err := listener.AcceptTCP()
		if err != nil {
			panic(err)
		}
		server, err := net.Dial("tcp", os.Args[1])
		if err != nil {
			panic(err)
		}
		go copyAll(client, server.(*net.TCPConn))
		go copyAll(server.(*net.TCPConn), client)
	}
}
