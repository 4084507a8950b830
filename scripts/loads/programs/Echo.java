import java.io.DataInputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;

/** blocking|selector serve|ask PORT: bytes that come back, on eight connections. Prints round trips per second. */
public class Echo {
    static final int CONNECTIONS = 8, SECONDS = 2;

    /** A thread for each connection, which waits in its reads. */
    static void blocking(InetSocketAddress address) throws Exception {
        ServerSocket listener = new ServerSocket(address.getPort(), 100, address.getAddress());
        for (;;) {
            Socket peer = listener.accept();
            peer.setTcpNoDelay(true);
            new Thread(() -> {
                byte[] piece = new byte[65536];
                try (peer) {
                    for (int got; (got = peer.getInputStream().read(piece)) > 0; ) peer.getOutputStream().write(piece, 0, got);
                } catch (Exception left) {
                    // The peer has reset it.
                }
            }).start();
        }
    }

    /** One thread for all. */
    static void selector(InetSocketAddress address) throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open().bind(address);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        for (;;) {
            selector.select();
            for (var keys = selector.selectedKeys().iterator(); keys.hasNext(); ) {
                SelectionKey key = keys.next();
                keys.remove();
                if (key.isAcceptable()) {
                    SocketChannel peer = listener.accept();
                    peer.configureBlocking(false);
                    peer.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(65536));
                    continue;
                }
                SocketChannel peer = (SocketChannel) key.channel();
                ByteBuffer piece = (ByteBuffer) key.attachment();
                try {
                    if (key.isReadable() && peer.read(piece) < 0) {
                        peer.close();
                        continue;
                    }
                    piece.flip();
                    peer.write(piece);
                    piece.compact();
                } catch (java.io.IOException left) {
                    peer.close();
                    continue;
                }
                key.interestOps(piece.position() > 0 ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_READ);
            }
        }
    }

    static void ask(InetSocketAddress address) throws Exception {
        AtomicLong trips = new AtomicLong();
        Thread[] clients = new Thread[CONNECTIONS];
        long begun = System.nanoTime();
        for (int number = 0; number < CONNECTIONS; number++) {
            Random random = new Random(number);
            clients[number] = new Thread(() -> {
                try (Socket peer = new Socket(address.getAddress(), address.getPort())) {
                    peer.setTcpNoDelay(true);
                    var answers = new DataInputStream(peer.getInputStream());
                    while (System.nanoTime() - begun < SECONDS * 1_000_000_000L) {
                        byte[] sent = new byte[1 + random.nextInt(1000)], got = new byte[sent.length];
                        random.nextBytes(sent);
                        peer.getOutputStream().write(sent);
                        answers.readFully(got);
                        if (!Arrays.equals(sent, got)) {
                            System.err.println("an answer differs");
                            System.exit(1);
                        }
                        trips.incrementAndGet();
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            clients[number].start();
        }
        for (Thread client : clients) client.join();
        System.out.println(trips.get() / ((System.nanoTime() - begun) / 1e9));
    }

    public static void main(String[] words) throws Exception {
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[2]));
        if (words[1].equals("ask")) ask(address);
        else if (words[0].equals("blocking")) blocking(address);
        else selector(address);
    }
}
