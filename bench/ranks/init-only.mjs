// Joins the job and leaves it: what is left when horovodrun runs it is the launcher, rendezvous and the transports' set-up.
import { openLibrary, readArguments } from './library.mjs';

const hvd = await openLibrary(readArguments().library);
await hvd.shutdown();
