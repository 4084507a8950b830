// PORT: pages by Go's server.
package main

import (
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) })
	http.ListenAndServe("127.0.0.1:"+os.Args[1], nil)
}
