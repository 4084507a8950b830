import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

/** PORT: pages by the JDK's server. */
public class Web {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 100);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 5);
            exchange.getResponseBody().write("hello".getBytes());
            exchange.close();
        });
        server.start();
    }
}
