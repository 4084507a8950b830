/* Prints the offsets of the fields in emp.h's structures, and the values of its constants. */
#include <emp.h>
#include <stdio.h>

#define AT(type, field) printf("%zu\n", offsetof(struct type, field))

int main(void) {
    printf("%zu\n", sizeof(struct emp_config));
    AT(emp_config, place);
    AT(emp_config, nodes);
    AT(emp_config, count);
    AT(emp_config, key);
    AT(emp_config, flags);
    AT(emp_config, processor);
    AT(emp_config, collection);
    AT(emp_config, spin);
    printf("%zu\n", sizeof(struct emp_status));
    AT(emp_status, error);
    AT(emp_status, node);
    AT(emp_status, tag);
    AT(emp_status, length);
    printf("%u\n%d\n%u\n%u\n", EMP_ANY_SOURCE, -EMP_ANY_TAG, EMP_NIC_THREAD, EMP_LOCK_MEMORY);
    return 0;
}
