"""Connections that NICs in software carry.

    python3 nics.py server|client DIR CASE
"""

import errno
import os
import signal

from common import main, say


def a_nic_dies(peer):
    """Each end waits for bytes when the NIC whose number is in SOVIA_TEST_VICTIM is killed."""
    connection = peer.stream()
    peer.meet()
    if peer.server:
        os.kill(int(os.environ["SOVIA_TEST_VICTIM"]), signal.SIGKILL)
    try:
        say("received", connection.recv(1))
    except OSError as error:
        say(errno.errorcode[error.errno])


main({"a_nic_dies": a_nic_dies})
