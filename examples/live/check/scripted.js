// A server that says what a test wrote for it, and nothing else: for what a real one does only when things go wrong.

import { createServer } from 'node:http';

async function read(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

export const notification = (seq, more = {}) => ({
  event_id: `7-${seq}`, notification_id: `10${seq}`, title: `title ${seq}`, body: '', data: {}, acknowledged: false, read: false, ...more,
});

// streams: what each GET /v1/live is answered with, in turn, the last one from then on: (stream, request) => void.
export async function scripted({ streams, inbox = () => [], acknowledge = () => 204 }) {
  const seen = { live: [], inbox: [], acknowledged: [], asked: 0 };
  const server = createServer(async (request, answer) => {
    const url = new URL(request.url, 'http://localhost');
    if (url.pathname === '/v1/live') {
      seen.live.push({ after: url.searchParams.get('last_event_id'), authorization: request.headers.authorization, at: Date.now() });
      const script = streams[Math.min(seen.live.length, streams.length) - 1];
      script(stream(answer), request);
    } else if (url.pathname === '/v1/live/acknowledge') {
      const { notification_ids } = JSON.parse(await read(request));
      const status = acknowledge(seen.asked++);
      if (status === 204) seen.acknowledged.push(notification_ids);
      answer.writeHead(status).end();
    } else {
      seen.inbox.push(Object.fromEntries(url.searchParams));
      const page = inbox(seen.inbox.length - 1);
      answer.writeHead(200, { 'Content-Type': 'application/json' });
      answer.end(JSON.stringify({ notifications: page, next_page_token: page.more ?? '', unread_count: page.length }));
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    ...seen,
    seen,
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); }),
  };
}

function stream(answer) {
  const begin = () => answer.headersSent || answer.writeHead(200, { 'Content-Type': 'text/event-stream' });
  return {
    raw(bytes) { begin(); answer.write(bytes); return this; },
    send(event, data, id) { return this.raw(`${id ? `id: ${id}\n` : ''}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`); },
    connected(heartbeat_ms = 15_000) { return this.raw('retry: 20\n\n').send('connected', { heartbeat_ms }); },
    notify(...all) { for (const one of all) this.send('notification', one, one.event_id); return this; },
    refuse(status, reason, retryAfter) {
      answer.writeHead(status, retryAfter ? { 'Retry-After': retryAfter } : {});
      answer.end(JSON.stringify({ error: { status: 'REFUSED', reason, message: 'refused' } }));
    },
    end() { begin(); answer.end(); },
  };
}
