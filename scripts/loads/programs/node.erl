%% serve, ask: messages to a process of another node and back. page: pages by inets. Print messages per second.
-module(node).
-export([serve/0, ask/0, page/0, do/1]).
-include_lib("inets/include/httpd.hrl").

serve() ->
    register(echo, self()),
    echo().

echo() ->
    receive {From, Message} -> From ! Message end,
    echo().

ask() ->
    Node = 'one@127.0.0.1',
    pong = wait(Node, 100),
    Count = 40000,
    Begun = erlang:monotonic_time(microsecond),
    [once(Node, Number) || Number <- lists:seq(1, Count)],
    io:format("~p~n", [Count * 1.0e6 / (erlang:monotonic_time(microsecond) - Begun)]),
    halt(0).

%% The node listens before its process has its name.
wait(Node, Tries) ->
    Ready = net_adm:ping(Node) =:= pong andalso rpc:call(Node, erlang, whereis, [echo]) =/= undefined,
    if Ready -> pong;
       Tries =:= 0 -> pang;
       true -> timer:sleep(100), wait(Node, Tries - 1)
    end.

once(Node, Number) ->
    Sent = {Number, binary:copy(<<Number:32>>, Number rem 200)},
    {echo, Node} ! {self(), Sent},
    receive
        Sent -> ok;
        _ -> io:format(standard_error, "message ~p differs~n", [Number]), halt(1)
    after 60000 -> io:format(standard_error, "no message ~p~n", [Number]), halt(1)
    end.

page() ->
    [Port] = init:get_plain_arguments(),
    ok = inets:start(),
    {ok, _} = inets:start(httpd, [{port, list_to_integer(Port)}, {bind_address, {127, 0, 0, 1}}, {server_name, "matrix"},
        {server_root, "."}, {document_root, "."}, {modules, [?MODULE]}, {max_keep_alive_request, 100000000}]).

do(_) -> {proceed, [{response, {response, [{code, 200}, {content_length, "5"}], "hello"}}]}.
