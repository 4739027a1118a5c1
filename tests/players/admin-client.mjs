// The API, as the administrator of a new server.

import { NAME, PASSWORD } from "./program.mjs";

/** Sets the server up; returns a function that sends a body to a path, by POST or another method, and returns the result. */
export async function createAdmin(server) {
  const send = async (token, path, body, method = "POST") => {
    const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    const response = await fetch(server.base + path, { method, headers, body: body && JSON.stringify(body) });
    const result = await response.json();
    if (!response.ok) throw new Error(`${path}: ${JSON.stringify(result)}`);
    return result;
  };
  const code = new URLSearchParams(new URL(server.link).hash.split("?")[1]).get("code");
  const { token } = await send(null, "/api/auth/setup", { code, username: NAME, password: PASSWORD });
  return (...request) => send(token, ...request);
}
