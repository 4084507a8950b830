// A server of net/http's whose listener is Sovia's: one line is changed.
//
//	go run ./examples/web 127.0.0.1:8080
//
// wrk, curl and others reach it as ever; under `sovia run` their bytes move over shared memory.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"

	"sovia"
)

func main() {
	address := "127.0.0.1:8080"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	// With the kernel's sockets: listener, err := net.Listen("tcp", address)
	listener, err := sovia.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello", r.URL.Path)
	})))
}
