import { makePortableWorld } from '../../../test/support/local-worlds.ts';
import { describeTransport } from '../../../test/support/transport-conformance.ts';

describeTransport('portable', makePortableWorld);
