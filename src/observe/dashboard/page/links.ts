// Addresses that come with events and facts of the job. Only those that a browser opens as a page: `javascript:` and others are not.

/** Undefined if it is none to open. */
export function safeHref(url: string, base: string = document.baseURI): string | undefined {
  try {
    const { protocol, href } = new URL(url, base);
    return protocol === 'http:' || protocol === 'https:' ? href : undefined;
  } catch {
    return undefined;
  }
}
