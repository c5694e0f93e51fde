// What bongsu-live.js promises, against a server that does what a test wants.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BongsuLive } from '../bongsu-live.js';
import { notification, scripted } from './scripted.js';
import { until } from './until.js';

function storage(kept = {}) {
  return { kept, getItem: (key) => kept[key] ?? null, setItem: (key, value) => { kept[key] = value; } };
}

async function connect(t, script, options = {}) {
  const server = await scripted(script);
  const got = [], states = [], errors = [];
  const live = new BongsuLive({
    url: server.url,
    token: () => 'token-of-minji',
    onNotification: (one) => { got.push(one.notification_id); },
    onState: (state, error) => states.push(error ? `${state} ${error.reason ?? error.message}` : state),
    onError: (error) => errors.push(error.message),
    ...options,
  });
  t.after(async () => { live.close(); await server.close(); });
  return { server, live, got, states, errors };
}

test('a notification is handed over and acknowledged, with others in one request', async (t) => {
  const { server, got, states } = await connect(t, {
    streams: [(stream) => stream.connected().notify(notification(1), notification(2), notification(3, { acknowledged: true }))],
  });
  await until('acknowledged', () => server.acknowledged.length === 1);
  assert.deepEqual(got, ['101', '102', '103']);
  assert.deepEqual(server.acknowledged, [['101', '102']]);
  assert.deepEqual(states, ['connecting', 'live']);
  assert.equal(server.live[0].authorization, 'Bearer token-of-minji');
  assert.equal(server.live[0].after, null);
});

test('after a break it goes on after the last event, and shows nothing twice', async (t) => {
  const { server, got } = await connect(t, {
    streams: [
      (stream) => { stream.connected().notify(notification(1), notification(2)).end(); },
      (stream) => stream.connected().notify(notification(2), notification(3)),
    ],
  });
  await until('three', () => got.length === 3);
  assert.deepEqual(got, ['101', '102', '103']);
  assert.equal(server.live[1].after, '7-2');
});

test('a client that is started anew remembers by its storage where it was and what it showed', async (t) => {
  const kept = storage();
  const script = { streams: [(stream) => stream.connected().notify(notification(1))] };
  const first = await connect(t, script, { storage: kept });
  await until('the first', () => first.server.acknowledged.length === 1);
  first.live.close();
  const second = await connect(t, { streams: [(stream) => stream.connected().notify(notification(1), notification(2))] }, { storage: kept });
  await until('the second', () => second.got.length === 1);
  assert.deepEqual(second.got, ['102']);
  assert.equal(second.server.live[0].after, '7-1');
});

test('what a push showed is not shown again, and only so many ids are remembered', async (t) => {
  const kept = storage();
  let begin;
  const { live, got } = await connect(t, { streams: [(stream) => { begin = () => stream.connected().notify(notification(1), notification(2)); }] }, { storage: kept });
  assert.equal(live.seen('101'), false, 'a push of the same broadcast came first');
  assert.equal(live.seen('101'), true);
  await until('asked', () => begin);
  begin();
  await until('the other', () => got.length === 1);
  assert.deepEqual(got, ['102']);
  for (let id = 0; id < 3000; id++) live.seen(`other-${id}`);
  assert.equal(JSON.parse(kept.kept['bongsu-live']).seen.length, 1000);
});

test('what the app fails at is not acknowledged, so that a push may follow', async (t) => {
  const { server, live, errors } = await connect(t, { streams: [(stream) => stream.connected().notify(notification(1), notification(2))] }, {
    onNotification: (one) => { if (one.notification_id === '101') throw new Error('no room'); },
  });
  await until('the other is acknowledged', () => server.acknowledged.length === 1);
  assert.deepEqual(server.acknowledged, [['102']]);
  assert.deepEqual(errors, ['no room']);
  assert.equal(live.seen('101'), false, 'its push is to be shown');
});

test('an acknowledgement that was not taken is sent again', async (t) => {
  const { server } = await connect(t, {
    streams: [(stream) => stream.connected().notify(notification(1))],
    acknowledge: (times) => (times === 0 ? 503 : 204),
  });
  await until('acknowledged', () => server.acknowledged.length === 1);
  assert.deepEqual(server.acknowledged, [['101']]);
});

test('a stream without heartbeats is dead, and left', async (t) => {
  const { server, states } = await connect(t, {
    streams: [(stream) => stream.connected(30), (stream) => stream.connected()],
  });
  await until('a second stream', () => server.live.length === 2);
  assert.ok(states.includes('waiting no heartbeat'), states.join());
});

test('a stream with heartbeats is kept', async (t) => {
  const beats = [];
  const { server, got } = await connect(t, {
    streams: [(stream) => {
      stream.connected(200);
      const timer = setInterval(() => {
        beats.push(1);
        stream.send('heartbeat', {});
        if (beats.length === 8) { stream.notify(notification(1)); clearInterval(timer); }
      }, 150);
    }],
  });
  await until('told', () => got.length === 1);
  assert.equal(server.live.length, 1, 'one stream, for longer than three heartbeats');
});

test('a server that drains says when to come again', async (t) => {
  const { server } = await connect(t, {
    streams: [(stream) => { stream.connected().send('reconnect', { after_ms: 700 }).end(); }, (stream) => stream.connected()],
  });
  await until('a second stream', () => server.live.length === 2);
  assert.ok(server.live[1].at - server.live[0].at >= 690, 'the hint is longer than the retry of 20 ms');
});

test('Retry-After is honoured', async (t) => {
  const { server, states } = await connect(t, {
    streams: [
      (stream) => { stream.connected().end(); },
      (stream) => stream.refuse(503, 'CONNECTIONS_EXCEEDED', 1),
      (stream) => stream.connected(),
    ],
  });
  await until('a third try', () => server.live.length === 3);
  assert.ok(server.live[2].at - server.live[1].at >= 990);
  assert.ok(states.includes('waiting CONNECTIONS_EXCEEDED'), states.join());
});

test('a refused token is asked for anew, more and more seldom, until wake', async (t) => {
  let token = 'old';
  const { server, live, states } = await connect(t, {
    streams: [(stream, request) => (request.headers.authorization === 'Bearer new' ? stream.connected() : stream.refuse(401, 'TOKEN_EXPIRED'))],
  }, { token: async () => token });
  await until('refused', () => states.includes('waiting TOKEN_EXPIRED'));
  token = 'new';
  live.wake();
  await until('connected', () => states.at(-1) === 'live');
  assert.equal(server.live.length, 2);
});

test('after a gap the inbox is read, oldest first, and then the stream goes on', async (t) => {
  const page = (...all) => Object.assign(all, { more: 'next' });
  const { server, got } = await connect(t, {
    streams: [
      (stream) => { stream.connected().notify(notification(1)).end(); },
      (stream) => { stream.connected().send('gap', { reason: 'too_many' }).notify(notification(5), notification(6)); },
    ],
    inbox: (times) => (times === 0 ? page(notification(5), notification(4)) : [notification(3), notification(2), notification(1)]),
  });
  await until('all of them', () => got.length === 6);
  assert.deepEqual(got, ['101', '102', '103', '104', '105', '106']);
  assert.deepEqual(server.inbox.map((query) => query.page_token), ['', 'next']);
  await until('all acknowledged', () => new Set(server.acknowledged.flat()).size === 6);
});

test('a text in any language comes whole, wherever the network cuts it', async (t) => {
  const titles = [];
  const text = Buffer.from(`event: notification\r\nid: 7-1\r\n:a comment\r\ndata: ${JSON.stringify(notification(1, { title: '봉수 🔥\u2028é' }))}\r\n\r\n`);
  await connect(t, {
    streams: [(stream) => { for (const byte of text) stream.raw(Buffer.from([byte])); }],
  }, { onNotification: (one) => { titles.push(one.title); } });
  await until('told', () => titles.length === 1);
  assert.deepEqual(titles, ['봉수 🔥\u2028é']);
});

test('close ends it, and what waits is still acknowledged', async (t) => {
  const { server, live, got, states } = await connect(t, { streams: [(stream) => stream.connected().notify(notification(1))] });
  await until('told', () => got.length === 1);
  live.close();
  await until('closed', () => states.at(-1) === 'closed');
  await until('acknowledged', () => server.acknowledged.length === 1);
  assert.equal(server.live.length, 1);
});
