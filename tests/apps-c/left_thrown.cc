// The parts of left.c that need C++.
extern "C" {
void throws(int) { throw 1; }

// Returns true if `does` throws.
bool is_thrown(void (*does)(void *), void *argument) {
    try {
        does(argument);
        return false;
    } catch (int) {
        return true;
    }
}
}
