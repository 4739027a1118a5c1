/* Runs PROGRAM with LIBRARY preloaded: workers inherit no LD_PRELOAD from the server. */
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    (void)count;
    setenv("LD_PRELOAD", LIBRARY, 1);
    execv(PROGRAM, arguments);
    return 127;
}
