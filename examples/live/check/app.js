// An app of somebody's: an empty page with the client beside it, on hosts that are not the live channel's.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const CLIENT = readFileSync(new URL('../bongsu-live.js', import.meta.url));

export async function startApp() {
  const server = createServer((request, answer) => {
    const script = request.url === '/bongsu-live.js';
    answer.writeHead(200, { 'Content-Type': script ? 'text/javascript' : 'text/html' });
    answer.end(script ? CLIENT : '<!doctype html><title>app</title>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    close() { server.close(); server.closeAllConnections(); },
  };
}
