// Record a turn and follow the scope, with fetch alone.
//
//   treering serve --db agents.db          prints the address and a token
//   TREERING_URL=http://127.0.0.1:8720 TREERING_TOKEN=trt_… node record_and_follow.mjs

const url = process.env.TREERING_URL ?? "http://127.0.0.1:8720";
const headers = { Authorization: `Bearer ${process.env.TREERING_TOKEN}` };
const scope = "acme/app";

/** Record events, all or none. Their ids make it safe to send them again until that worked. */
async function record(events) {
  const body = JSON.stringify({ events });
  for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
    try {
      const answer = await fetch(`${url}/v1/events`, {
        method: "POST", body, headers: { ...headers, "Content-Type": "application/json" },
      });
      if (answer.ok) return await answer.json();
      const { code, message, hint } = await answer.json();
      if (answer.status !== 503) throw Object.assign(new Error(`${message} (${hint})`), { code });
    } catch (error) {
      if (error.code || !(error instanceof TypeError)) throw error; // Not the network.
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** Give each event with its cursor; connect again after the last one whenever the stream ends. */
async function* follow(after) {
  for (;;) {
    const path = `${url}/v1/scopes/${encodeURIComponent(scope)}/stream`;
    const resumed = after ? { ...headers, "Last-Event-ID": after } : headers;
    const answer = await fetch(path, { headers: resumed });
    if (!answer.ok) throw new Error((await answer.json()).message);
    let text = "";
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      const messages = (text + chunk).split("\n\n");
      text = messages.pop();
      for (const message of messages) {
        const fields = Object.fromEntries(message.split("\n").map((line) => line.split(/: (.*)/s)));
        if (fields.id) after = fields.id;
        if (fields.data) yield { cursor: after, ...JSON.parse(fields.data) };
      }
    }
  }
}

const run_id = crypto.randomUUID();
const event = (kind, summary, more = {}) => ({
  scope, session_id: "from-js", agent_id: "node", event_id: crypto.randomUUID(),
  kind, summary, run_id, ...more,
});
const { new: ids } = await record([
  event("run.started", "run started"),
  event("conversation.user", "How many tests are there?"),
  event("conversation.assistant", "Two.", { payload: { text: "Two." } }),
  event("run.ended", "run ended"),
]);
for await (const { seq, kind, summary } of follow()) {
  console.log(seq, kind, summary);
  if (seq === ids.length) process.exit(0);
}
