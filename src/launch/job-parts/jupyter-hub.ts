// Behind JupyterHub, the browser cannot reach this machine itself; jupyter-server-proxy on the user's server can.

/** The path below the hub's address that leads to a port of this machine; undefined: there is no hub. */
export function pathThroughJupyterHub(
  port: string | number,
  environment: NodeJS.ProcessEnv,
): string | undefined {
  const { JUPYTERHUB_SERVICE_PREFIX: prefix } = environment;
  return prefix === undefined ? undefined : `${prefix}proxy/${port}/`;
}
