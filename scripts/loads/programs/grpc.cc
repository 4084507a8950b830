// serve|ask PORT: calls one after the other, by gRPC's generic service. Prints calls per second.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

static const int calls = 20000;

static grpc::ByteBuffer buffer(const std::string &text) {
    grpc::Slice slice(text);
    return grpc::ByteBuffer(&slice, 1);
}

static std::string text(const grpc::ByteBuffer &buffer) {
    grpc::Slice slice;
    return buffer.DumpToSingleSlice(&slice).ok() ? std::string((const char *)slice.begin(), slice.size()) : "";
}

class Call : public grpc::ServerGenericBidiReactor {
  public:
    Call() { StartRead(&message); }
    void OnReadDone(bool good) override {
        if (good)
            StartWrite(&message);
        else
            Finish(grpc::Status::OK);
    }
    void OnWriteDone(bool) override { StartRead(&message); }
    void OnDone() override { delete this; }

  private:
    grpc::ByteBuffer message;
};

class Echo : public grpc::CallbackGenericService {
    grpc::ServerGenericBidiReactor *CreateReactor(grpc::GenericCallbackServerContext *) override { return new Call; }
};

static bool call(grpc::GenericStub &stub, const std::string &message, std::string &answer) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    grpc::CompletionQueue queue;
    grpc::ByteBuffer got;
    grpc::Status status;
    auto reader = stub.PrepareUnaryCall(&context, "/matrix/echo", buffer(message), &queue);
    reader->StartCall();
    reader->Finish(&got, &status, nullptr);
    void *tag;
    bool good = false;
    queue.Next(&tag, &good);
    answer = text(got);
    return good && status.ok();
}

int main(int count, char **words) {
    if (count < 3) return 2;
    std::string address = std::string("127.0.0.1:") + words[2];
    if (!strcmp(words[1], "serve")) {
        Echo echo;
        grpc::ServerBuilder builder;
        builder.AddListeningPort(address, grpc::InsecureServerCredentials());
        builder.RegisterCallbackGenericService(&echo);
        builder.BuildAndStart()->Wait();
    }
    grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    std::string answer;
    if (!call(stub, "first", answer)) return 1;
    auto begun = std::chrono::steady_clock::now();
    for (int number = 0; number < calls; number++) {
        std::string message(number % 1000 + 1, 'a' + number % 26);
        if (!call(stub, message, answer)) return 1;
        if (answer != message) {
            fprintf(stderr, "answer %d differs\n", number);
            return 1;
        }
    }
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - begun;
    printf("%f\n", calls / time.count());
}
