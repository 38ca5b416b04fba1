#!/usr/bin/env python3
"""Listens to an interface of this host, and says whether a text has passed in a packet.

find-on-wire.py INTERFACE TEXT
Prints "listening"; after SIGTERM "seen" or "not seen", and how many bytes have passed.
"""
import signal
import socket
import sys

EVERY_PROTOCOL = 0x0003
interface, text = sys.argv[1], sys.argv[2].encode()
line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
line.bind((interface, 0))
line.settimeout(0.2)
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
print("listening", flush=True)
seen, passed = False, 0
while True:
    try:
        packet = line.recv(1 << 17)
        passed += len(packet)
        seen = seen or text in packet
    except TimeoutError:
        if ends:
            break
print("seen" if seen else "not seen", passed, flush=True)
