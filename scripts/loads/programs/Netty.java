import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;

/** PORT: pages by Netty. */
public class Netty {
    public static void main(String[] words) throws Exception {
        new ServerBootstrap().group(new NioEventLoopGroup(1)).channel(NioServerSocketChannel.class)
            .childHandler(new ChannelInitializer<SocketChannel>() {
                @Override protected void initChannel(SocketChannel peer) {
                    peer.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(65536), new Hello());
                }
            }).bind("127.0.0.1", Integer.parseInt(words[0])).sync();
    }

    static class Hello extends SimpleChannelInboundHandler<FullHttpRequest> {
        @Override protected void channelRead0(ChannelHandlerContext peer, FullHttpRequest question) {
            var answer = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK,
                Unpooled.copiedBuffer("hello".getBytes()));
            answer.headers().set("content-length", 5);
            peer.writeAndFlush(answer);
        }
    }
}
