// Both ends of a connection over the loopback interface, in this process. As in a mesh, Node does not read from them.

import { createConnection, createServer, type Socket } from 'node:net';
import { type Connection, handOver } from '../../src/net/connection.ts';

/** The dialing end and the accepting end. */
export async function connectPair(): Promise<[Connection, Connection]> {
  const server = createServer({ noDelay: true, pauseOnConnect: true });
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const dialed = createConnection({ port: address.port, host: '127.0.0.1', noDelay: true });
  await new Promise<void>((resolve, reject) => dialed.once('connect', resolve).once('error', reject));
  const ends = [dialed, await accepted] as const;
  server.close();
  for (const socket of ends) socket.on('error', () => socket.destroy());
  const keysFor = () => ({ send: Buffer.alloc(32), receive: Buffer.alloc(32) });
  const details = { address: 'the other', keysFor };
  return [
    handOver(ends[0], { ...details, accepted: false }),
    handOver(ends[1], { ...details, accepted: true }),
  ];
}
