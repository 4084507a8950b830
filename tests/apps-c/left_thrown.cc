// What left.c cannot say in C.
extern "C" {
void throws(int) { throw 1; }

// Whether it has thrown.
bool is_thrown(void (*does)(void *), void *argument) {
    try {
        does(argument);
        return false;
    } catch (int) {
        return true;
    }
}
}
