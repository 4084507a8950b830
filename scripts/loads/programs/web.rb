# PORT: pages by webrick.
require 'webrick'

server = WEBrick::HTTPServer.new(BindAddress: '127.0.0.1', Port: ARGV[0].to_i, AccessLog: [],
                                 Logger: WEBrick::Log.new(File::NULL),
                                 AcceptCallback: ->(peer) { peer.setsockopt(:TCP, :NODELAY, true) })
server.mount_proc('/') { |_, answer| answer.body = 'hello' }
trap('TERM') { server.shutdown }
server.start
