// PORT: pages by Node's server.
require('http').createServer((question, answer) => answer.end('hello')).listen(process.argv[2], '127.0.0.1');
